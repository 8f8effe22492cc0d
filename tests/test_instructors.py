"""What the instructor's page promises: plans, the things they show, code that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import lab
from lab.exercises import Exercise, bake

ROOT = Path(__file__).parents[1]
MINUTES = 10
LEAVING = 1
"""The last minute belongs to the sentence."""


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / "book" / name).read_text("utf-8"))


PLANS = {plan["chapter"]: plan for plan in parsed("classroom.yaml")}
CHAPTERS = parsed("chapters.yaml")["chapters"]
WRITTEN = [name for name in PLANS if (ROOT / "chapters" / f"{name}.ipynb").exists()]
every_plan = pytest.mark.parametrize("name", PLANS)


def notebook(chapter: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "chapters" / f"{chapter}.ipynb").read_text("utf-8"))["cells"]


def faults(plan: dict[str, Any], cells: list[dict[str, Any]]) -> Iterator[str]:
    """What a plan puts on the wall or expects, and the notebook does not have."""
    kinds = ("figure", "table")
    named = {(kind, cell["metadata"].get(kind)) for cell in cells for kind in kinds}
    code = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for step in plan["steps"]:
        wall, expected = step.get("wall", ""), step.get("expect")
        found = re.fullmatch(r"[?#](figure|table|exercise)[=-]([a-z0-9-]+)", wall)
        asked = [expected, found and found[1] == "exercise" and found[2]]
        yield from (f"nobody asks {id}" for id in asked if id and f'"{id}"' not in code)
        if wall and not found:
            yield f"no figure, table or exercise: {wall}"
        elif found and found[1] in kinds and found.groups() not in named:
            yield f"the chapter has no {wall}"


def test_every_finished_chapter_has_a_plan() -> None:
    assert [c["file"] for c in CHAPTERS if c["finished"] and c["file"] not in PLANS] == []


@every_plan
def test_a_plan_belongs_to_a_chapter_and_fills_ten_minutes(name: str) -> None:
    plan = PLANS[name]
    assert name in [chapter["file"] for chapter in CHAPTERS]
    assert sum(step["minutes"] for step in plan["steps"]) == MINUTES - LEAVING
    assert plan["leave"].count(". ") == 0, "one sentence"
    assert plan["leave"].endswith(".")


@every_plan
def test_a_plan_types_no_number(name: str) -> None:
    words = [PLANS[name]["leave"], *(step["do"] for step in PLANS[name]["steps"])]
    assert [text for text in words if re.search(r"\d", text)] == []


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_plan_shows_stands_in_its_chapter(name: str) -> None:
    assert list(faults(PLANS[name], notebook(name))) == []


def test_what_is_not_there_is_found() -> None:
    plan = {
        "steps": [
            {"wall": "?figure=three-seats"},
            {"wall": "?two-seats"},
            {"wall": "#exercise-batching-idle"},
            {"wall": "?figure=two-seats", "expect": "batching-idle"},
        ]
    }
    assert list(faults(plan, notebook("02-batching"))) == [
        "the chapter has no ?figure=three-seats",
        "no figure, table or exercise: ?two-seats",
        "nobody asks batching-idle",
        "nobody asks batching-idle",
    ]


def test_the_exercise_of_ones_own_can_be_asked_as_it_stands_there() -> None:
    page = (ROOT / "book" / "instructors.md").read_text("utf-8")
    code, asking = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    own: dict[str, Any] = {}
    exec(code, own)
    exercise = own["GAPS"]
    assert isinstance(exercise, Exercise)
    assert len({one.text().split("\n", 1)[1] for one in bake(exercise)}) >= 9
    exec(asking.partition("\n\n")[2], {"lab": lab, **own})
