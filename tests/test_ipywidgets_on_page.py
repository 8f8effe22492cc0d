"""What a page keeps of the saved ipywidgets, and which of them it cannot draw."""

from __future__ import annotations

from typing import Any

import ipywidgets
import pytest
from ipywidgets.embed import embed_data

import lab
from book._ext.ipywidgets_on_page import VIEW, closure, kept, references, undrawn


def model(name: str, module: str = "@jupyter-widgets/controls", **state: Any) -> dict[str, Any]:
    return {"model_name": name, "model_module": module, "state": state}


MODELS = {
    "gap": model("LayoutModel", "@jupyter-widgets/base"),
    "look": model("SliderStyleModel"),
    "seats": model("IntSliderModel", layout="IPY_MODEL_gap", style="IPY_MODEL_look", value=7),
    "shown": model("LabelModel", value="IPY", layout="IPY_MODEL_gap"),
    "out": model(
        "OutputModel",
        "@jupyter-widgets/output",
        outputs=[
            {"output_type": "stream", "name": "stdout", "text": "IPY_MODEL"},
            {"output_type": "display_data", "data": {VIEW: {"model_id": "shown"}}},
        ],
    ),
    "box": model("VBoxModel", children=["IPY_MODEL_seats", "IPY_MODEL_out"]),
    "other": model("IntSliderModel", value=1),
    "tie": model("LinkModel", source=["IPY_MODEL_seats", "value"], target=["IPY_MODEL_shown", "v"]),
    "far": model("LinkModel", source=["IPY_MODEL_seats", "value"], target=["IPY_MODEL_other", "v"]),
    "player": model("AnyModel", "anywidget", _esm="x", _anywidget_id="lab.widgets.player.Player"),
    "mixed": model("HBoxModel", children=["IPY_MODEL_player", "IPY_MODEL_seats"]),
    "torn": model("HBoxModel", children=["IPY_MODEL_gone"]),
    "map": model("MapModel", "jupyter-leaflet"),
}


def test_a_value_names_models_at_any_depth() -> None:
    value = {"a": ["IPY_MODEL_x", {"b": "IPY_MODEL_y"}], "c": "z", "d": None, "e": 3}
    assert list(references(value)) == ["x", "y"]


def test_what_an_output_shows_is_needed_as_well() -> None:
    assert closure(MODELS, ["out"]) == {"out", "shown", "gap"}


def test_a_container_needs_its_children_with_their_layout_and_style() -> None:
    assert closure(MODELS, ["box"]) == {"box", "seats", "out", "shown", "gap", "look"}


def test_models_that_name_each_other_come_to_an_end() -> None:
    circle = {"a": model("BoxModel", c="IPY_MODEL_b"), "b": model("BoxModel", c="IPY_MODEL_a")}
    assert closure(circle, ["a"]) == {"a", "b"}


def test_models_are_kept_whole_with_the_links_between_them_and_nothing_else() -> None:
    state = kept(MODELS, ["box"])
    assert list(state) == ["gap", "look", "seats", "shown", "out", "box", "tie"]
    assert all(state[name] is MODELS[name] for name in state)


@pytest.mark.parametrize(
    ("root", "lacking"),
    [
        ("box", []),
        ("mixed", ["Player"]),
        ("torn", ["a model that was not saved"]),
        ("map", ["MapModel"]),
    ],
)
def test_what_the_page_has_no_class_for_is_named(root: str, lacking: list[str]) -> None:
    assert undrawn(MODELS, root) == lacking


def test_real_widgets_are_saved_in_the_form_that_is_read_here() -> None:
    trace = lab.simulate(
        lab.Workload.given({"A": (0, 1, 2)}), lab.Static(seats=1), lab.CostModel.equal_steps()
    )
    slider = ipywidgets.IntSlider(value=7)
    player = lab.play(lab.timeline(trace))
    box, mixed = ipywidgets.VBox([slider]), ipywidgets.HBox([player])
    models = embed_data([box, mixed], drop_defaults=False)["manager_state"]["state"]
    needed = {box.model_id, slider.model_id, slider.layout.model_id, slider.style.model_id}
    assert needed | {box.layout.model_id} == set(kept(models, [box.model_id]))
    assert undrawn(models, box.model_id) == []
    assert undrawn(models, mixed.model_id) == ["Player"]
