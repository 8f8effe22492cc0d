"""Sphinx extension: `{classroom}` shows the plans of book/classroom.yaml for chapters in this book.

The wrong answers to expect are those that the exercise knows, with the numbers of the chapter.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from question_bank import address, chapters, folded, inline, key, turns_list

from lab.exercises import variant
from lab.questions import exercises, number_in_book

PLANS = Path(__file__).resolve().parents[1] / "classroom.yaml"
BANK_PAGE = "book/question-bank"


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("classroom", Classroom)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Classroom(Directive):
    """One plan a chapter, minute by minute."""

    def run(self) -> list[nodes.Node]:
        """One section a plan; the page is read again in every build."""
        self.env = self.state.document.settings.env
        self.env.note_reread()
        plans = {plan["chapter"]: plan for plan in yaml.safe_load(PLANS.read_text("utf-8"))}
        return [
            self._plan(f"Chapter {number}: {question}", page, plans[name])
            for number, page, question in chapters(self.env)
            if (name := page.removeprefix("chapters/")) in plans
        ]

    def _plan(self, title: str, page: str, plan: dict[str, Any]) -> nodes.section:
        section = nodes.section("", nodes.title("", title), ids=[f"plan-{plan['chapter']}"])
        steps = nodes.definition_list(classes=["plan"])
        start = 0
        for step in plan["steps"]:
            stop = start + step["minutes"]
            steps += _item(_span(start, stop), step["title"], self._step(page, step))
            start = stop
        leave = nodes.paragraph("", "", *inline(plan["leave"]))
        steps += _item(_span(start, start + 1), "Leave them with", [leave])
        section += steps
        return section

    def _step(self, page: str, step: dict[str, Any]) -> Iterator[nodes.Node]:
        """What is on the wall, what to do, and what will be answered."""
        if wall := step.get("wall"):
            link = nodes.reference("", "", nodes.literal("", f"{page}.html{wall}"), internal=True)
            link["refuri"] = f"{address(self.env, page)}{wall}"
            yield nodes.paragraph("", "On the wall: ", link)
        yield nodes.paragraph("", "", *inline(step["do"]))
        if expected := step.get("expect"):
            yield from self._expected(expected)

    def _expected(self, id: str) -> Iterator[nodes.Node]:
        (exercise,) = exercises(id)
        _, right, wrong = key(variant(exercise, 0).question.answer)
        link = nodes.reference("", f"exercise {number_in_book(exercise)}", internal=True)
        link["refuri"] = f"{address(self.env, BANK_PAGE)}#{id}"
        source = nodes.paragraph("", "", nodes.Text("It is "), link, nodes.Text("; the answer:"))
        inside = [
            source,
            *right,
            nodes.paragraph("", "And what else will be said:"),
            turns_list(wrong),
        ]
        yield from folded("Answers to expect", inside, "bank-answer")


def _span(start: int, stop: int) -> str:
    """Minutes as they are counted in a room, from 1: "Minute 10", "Minutes 1 to 2"."""
    return f"Minute {stop}" if stop - start == 1 else f"Minutes {start + 1} to {stop}"


def _item(when: str, title: str, inside: Any) -> nodes.definition_list_item:
    term = nodes.term("", f"{when}: {title}")
    return nodes.definition_list_item("", term, nodes.definition("", *inside))
