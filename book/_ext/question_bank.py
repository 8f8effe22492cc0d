"""Sphinx extension: `{question-bank}` shows all exercises of the book with their answers, folded.

Of each exercise it shows variant 0, the numbers of its chapter: the question, the hints, the
answer, and for every known wrong answer the method that leads there and the sentence that answers
it. Only chapters that are in this book are shown. `_static/question_bank.js` opens all answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import singledispatch
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive

from lab.answers import (
    BLANK,
    Choice,
    Drawing,
    Filling,
    Line,
    Number,
    Order,
    Prediction,
    Scale,
    WrongWord,
    exact_text,
    in_words,
)
from lab.exercises import Exercise, variant
from lab.questions import BANK, number_in_book

CHAPTERS = Path(__file__).resolve().parents[1] / "chapters.yaml"
MARKED = re.compile(r"`([^`]+)`|\*([^*\s](?:[^*]*[^*\s])?)\*")
HOLDS_BANK = "holds_question_bank"
"""Set in the metadata of the page that needs the script."""


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("question-bank", QuestionBank)
    app.connect("html-page-context", _bring_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _bring_script(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if HOLDS_BANK in app.env.metadata.get(page, {}):
        app.add_js_file("question_bank.js", type="module")


# Exercises as values


class Turn(NamedTuple):
    """An answer that somebody may give, how one gets there (if that is known), and what is said."""

    answer: str
    method: str
    says: str


class Key(NamedTuple):
    """What is shown with a question, and what only an instructor sees."""

    asked: list[nodes.Node]
    right: list[nodes.Node]
    wrong: list[Turn]


@singledispatch
def key(answer: object) -> Key:
    """The key to one kind of answer. TypeError for a kind that has none yet."""
    raise TypeError(f"the question bank cannot show an answer of type {type(answer).__name__}")


@key.register
def _(answer: Number) -> Key:
    wrong = [Turn(in_words(one.value), one.method, one.says) for one in answer.wrong]
    right = f"{in_words(answer.value)} {answer.unit}"
    if answer.tolerance:
        right += f", right within {float(100 * answer.tolerance / abs(answer.value)):.2g} %"
    return Key(_paragraphs(answer.asked()), _paragraphs([right]), wrong)


@key.register
def _(answer: Scale) -> Key:
    wrong = [Turn(exact_text(one.value), one.method, one.says) for one in answer.wrong]
    return Key(_paragraphs(answer.asked()), _paragraphs(answer.key()[:1]), wrong)


@key.register
def _(answer: Choice) -> Key:
    def turns(right: bool) -> list[Turn]:
        return [
            Turn(f"{letter}. {option.text}", "", option.says)
            for letter, option in zip(ascii_lowercase, answer.options, strict=False)
            if option.right is right
        ]

    note = ["More than one may be right."] if answer.several else []
    asked = [*_paragraphs(note), _lettered(option.text for option in answer.options)]
    return Key(asked, [turns_list(turns(True))], turns(False))


@key.register
def _(answer: Order) -> Key:
    letters = {place: ascii_lowercase[at] for at, place in enumerate(answer.shown)}

    def said(order: Iterable[int]) -> str:
        return " ".join(letters[place] for place in order)

    asked = [_lettered(answer.items[place] for place in answer.shown)]
    right = _paragraphs([said(range(len(answer.items)))])
    return Key(asked, right, [Turn(said(one.order), "", one.says) for one in answer.wrong])


@key.register
def _(answer: Filling) -> Key:
    blank = [[c if isinstance(c, str) else BLANK for c in row] for row in answer.rows]
    filled = [[_filled(cell) for cell in row] for row in answer.rows]
    return Key(
        [_table(answer.columns, blank)], [_table(answer.columns, filled)], list(_of_cells(answer))
    )


@key.register
def _(answer: Line) -> Key:
    turns = [
        Turn(f"line {number}: {line}", "", says)
        for number, (line, says) in enumerate(zip(answer.lines, answer.says, strict=True), 1)
    ]
    right = turns.pop(answer.wrong)
    return Key([_list(nodes.enumerated_list(), answer.lines)], [turns_list([right])], turns)


@key.register
def _(answer: Drawing) -> Key:
    right = _list(nodes.bullet_list(), answer.key())
    return Key(_paragraphs(answer.asked()), [right], [])


@key.register
def _(answer: Prediction) -> Key:
    asked, right, wrong = key(answer.by)
    return Key(asked, [*right, *_paragraphs([answer.why])], wrong)


def _filled(cell: Any) -> str:
    if isinstance(cell, Number):
        return in_words(cell.value)
    return cell if isinstance(cell, str) else cell.text


def _of_cells(answer: Filling) -> Iterator[Turn]:
    """The wrong turns of each cell, with its row and column in words."""
    first, *_ = answer.columns
    for row in answer.rows:
        for column, cell in zip(answer.columns, row, strict=True):
            for one in () if isinstance(cell, str) else cell.wrong:
                value = one.text if isinstance(one, WrongWord) else in_words(one.value)
                method = "" if isinstance(one, WrongWord) else one.method
                yield Turn(f"{first} {row[0]}, {column}: {value}", method, one.says)


# Values as nodes


def inline(text: str) -> list[nodes.Node]:
    """A line with the little markup of questions: `code` and *emphasis*."""
    found: list[nodes.Node] = []
    at = 0
    for mark in MARKED.finditer(text):
        code, emphasis = mark.groups()
        found += [nodes.Text(text[at : mark.start()])] if mark.start() > at else []
        found.append(nodes.literal("", code) if code else nodes.emphasis("", emphasis))
        at = mark.end()
    return [*found, nodes.Text(text[at:])] if at < len(text) else found


def turns_list(turns: Iterable[Turn]) -> nodes.definition_list:
    """Answers and what is said to each; those that are told the same stand together."""
    together: dict[str, list[Turn]] = {}
    for turn in turns:
        together.setdefault(turn.says, []).append(turn)
    shown = nodes.definition_list(classes=["turns"])
    for says, alike in together.items():
        item = nodes.definition_list_item()
        for turn in alike:
            how = f", from {turn.method}" if turn.method else ""
            item += nodes.term("", "", nodes.strong("", turn.answer), nodes.Text(how))
        item += nodes.definition("", nodes.paragraph("", "", *inline(says)))
        shown += item
    return shown


def _paragraphs(lines: Iterable[str]) -> list[nodes.Node]:
    return [nodes.paragraph("", "", *inline(line)) for line in lines]


def _list(shown: nodes.Element, lines: Iterable[str]) -> nodes.Element:
    for line in lines:
        shown += nodes.list_item("", *_paragraphs([line]))
    return shown


def _lettered(lines: Iterable[str]) -> nodes.Element:
    return _list(nodes.enumerated_list(enumtype="loweralpha"), lines)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> nodes.table:
    head = _row(columns)
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", head)
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group, classes=["colwidths-auto"])


def _row(cells: Iterable[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", *_paragraphs([cell])) for cell in cells))


def folded(summary: str, inside: Iterable[nodes.Node], kind: str) -> list[nodes.Node]:
    """Nodes in a details element of the class `kind`, closed."""
    opening = f'<details class="{kind}"><summary>{summary}</summary>'
    return [
        nodes.raw("", opening, format="html"),
        *inside,
        nodes.raw("", "</details>", format="html"),
    ]


# The page


class QuestionBank(Directive):
    """All exercises of the chapters in this book, each with its key."""

    def run(self) -> list[nodes.Node]:
        """One section a chapter; the page is read again in every build."""
        env = self.state.document.settings.env
        env.note_reread()
        env.metadata[env.docname][HOLDS_BANK] = True
        return [
            self._section(
                f"chapter-{number}",
                f"Chapter {number}: {question}",
                [
                    self._section(
                        exercise.id, _title(exercise), _card(exercise, address(env, page))
                    )
                    for exercise in BANK[number]
                ],
            )
            for number, page, question in chapters(env)
            if BANK.get(number)
        ]

    def _section(self, id: str, title: str, inside: Iterable[nodes.Node]) -> nodes.section:
        section = nodes.section("", nodes.title("", title), *inside, ids=[id], names=[id])
        self.state.document.note_explicit_target(section, section)
        return section


def chapters(env: Any) -> Iterator[tuple[int, str, str]]:
    """Number, page and question of each chapter that is in this book, in reading order."""
    for row in yaml.safe_load(CHAPTERS.read_text("utf-8"))["chapters"]:
        page = f"chapters/{row['file']}"
        if page in env.found_docs:
            yield int(row["file"].split("-")[0]), page, row["question"]


def address(env: Any, page: str) -> str:
    """Another page of the book, as the page that is being read links to it."""
    return env.app.builder.get_relative_uri(env.docname, page)  # type: ignore[no-any-return]


def _title(exercise: Exercise) -> str:
    return f"Exercise {number_in_book(exercise)}: {exercise.title}"


def _card(exercise: Exercise, chapter: str) -> Iterator[nodes.Node]:
    """The question, a link to it, and folded what helps and what answers it."""
    question = variant(exercise, 0).question
    asked, right, wrong = key(question.answer)
    yield from _paragraphs(question.text.split("\n\n"))
    yield from asked
    link = nodes.reference("", f"Exercise {number_in_book(exercise)} in its chapter", internal=True)
    link["refuri"] = f"{chapter}?seed=0#exercise-{exercise.id}"
    yield nodes.paragraph("", "", link, classes=["asked-in"])
    hints = _list(nodes.enumerated_list(), question.hints)
    yield from folded("Hints", [hints], "bank-hints")
    turns = [nodes.rubric("", "Wrong answers, and what to say"), turns_list(wrong)] if wrong else []
    worked = _list(nodes.bullet_list(), question.worked)
    inside = [*right, *turns, nodes.rubric("", "Worked answer"), worked]
    yield from folded("Answer", inside, "bank-answer")
