"""The saved state of figures, each source once."""

from __future__ import annotations

from typing import Any

from book._ext.widgets_on_page import in_script, share


def figure(step: int, **more: Any) -> dict[str, Any]:
    """The saved state of a widget that brings its own module."""
    state = {"_esm": "export default 1", "_css": "p {}", "step": step, **more}
    return {"model_name": "AnyModel", "model_module": "anywidget", "state": state}


LAYOUT = {"model_name": "LayoutModel", "model_module": "@jupyter-widgets/base", "state": {}}


def test_two_figures_share_one_module_and_one_style_sheet() -> None:
    state, texts = share({"state": {"a": figure(1), "b": figure(2)}})
    assert texts == {"shared0": "export default 1", "shared1": "p {}"}
    for model, step in (("a", 1), ("b", 2)):
        values = {"_esm": "shared0", "_css": "shared1", "step": step}
        assert state["state"][model] == {"state": values}


def test_a_figure_with_another_module_brings_it() -> None:
    _, texts = share({"state": {"a": figure(1), "b": figure(2, _esm="export default 2")}})
    assert list(texts.values()) == ["export default 1", "p {}", "export default 2"]


def test_what_draws_nothing_itself_and_what_no_figure_reads_is_left_out() -> None:
    saved = {"l": LAYOUT, "a": figure(1, layout="IPY_MODEL_l", _view_name="AnyView")}
    state, _ = share({"state": saved})
    assert set(state["state"]) == {"a"}
    assert set(state["state"]["a"]["state"]) == {"_esm", "_css", "step"}


def test_a_page_without_figures_shares_nothing() -> None:
    assert share({"state": {"l": LAYOUT}}) == ({"state": {}}, {})


def test_no_text_can_end_its_script() -> None:
    assert in_script("a</script>b</p>") == "a<\\/script>b<\\/p>"
