"""Which ids of the ledger the notebooks cover, where, and which are missing.

An id with a check is covered by a call `worked("id", computed value)` in a code cell; an id
without one by a cell whose metadata has `"covers": ["id", ...]`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

# Calls that only spell a constant: Fraction(2, 3) is as typed in as 0.5.
SPELLINGS = frozenset({"Fraction", "int", "float", "str", "bool", "list", "tuple", "dict", "set"})


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """One place that names an id: in a `worked` call (`by_number`) or in a cell's `covers`."""

    id: str
    chapter: str
    cell: int
    by_number: bool


@dataclass(frozen=True, slots=True)
class Chapter:
    """One row of book/chapters.yaml."""

    file: str
    question: str
    topics: tuple[str, ...]
    finished: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every id of the ledger in exactly one of four groups, and what is wrong besides."""

    covered: Mapping[str, tuple[Mention, ...]]
    left_out: Mapping[str, str]
    not_yet_written: Mapping[str, tuple[str, ...]]
    missing: Mapping[str, str]
    problems: tuple[str, ...]

    def anchors(self) -> dict[Mention, str]:
        """What each place that covers an id is called on its page: `worked-ID` for the first in
        the book, then `worked-ID--2` and so on. A cell that names an id twice has one."""
        names: dict[Mention, str] = {}
        for id, places in self.covered.items():
            for number, place in enumerate(dict.fromkeys(places), 1):
                names[place] = f"worked-{id}" if number == 1 else f"worked-{id}--{number}"
        return names

    def where(self, id: str) -> str:
        """In words: the chapters that cover `id`, or why none does."""
        if id in self.covered:
            chapters = dict.fromkeys(place.chapter for place in self.covered[id])
            return f"covered in {', '.join(chapters)}"
        if id in self.not_yet_written:
            return f"not yet written: {', '.join(self.not_yet_written[id])}"
        if id in self.left_out:
            return f"left out: {self.left_out[id]}"
        return f"due: {self.missing[id]}"


def of_book(root: Path, ledger: Mapping[str, bool]) -> Coverage:
    """The coverage of `ledger` (id -> whether it has a check) by the notebooks below `root`."""
    mentions: list[Mention] = []
    problems: list[str] = []
    for path in sorted((root / "chapters").glob("*.ipynb")):
        found, complaints = read_notebook(path.stem, json.loads(path.read_text(encoding="utf-8")))
        mentions += found
        problems += complaints
    left_out, chapters = (
        yaml.safe_load((root / "book" / name).read_text(encoding="utf-8"))
        for name in ("not_covered.yaml", "chapters.yaml")
    )
    result = coverage(ledger, mentions, left_out, read_chapters(chapters))
    return replace(result, problems=(*problems, *result.problems))


def read_chapters(document: Mapping[str, Any]) -> tuple[Chapter, ...]:
    """The rows of book/chapters.yaml, already parsed."""
    return tuple(
        Chapter(
            file=row["file"],
            question=row["question"],
            topics=tuple(row["topics"]),
            finished=row["finished"],
        )
        for row in document["chapters"]
    )


def read_notebook(chapter: str, notebook: Mapping[str, Any]) -> tuple[list[Mention], list[str]]:
    """The mentions in one notebook (its JSON, parsed), and what is wrong with its calls."""
    mentions: list[Mention] = []
    problems: list[str] = []
    for number, cell in enumerate(notebook["cells"]):
        covers = cell.get("metadata", {}).get("covers", [])
        mentions += [Mention(id, chapter, number, by_number=False) for id in covers]
        if cell["cell_type"] == "code":
            ids, complaints = worked_calls("".join(cell["source"]))
            mentions += [Mention(id, chapter, number, by_number=True) for id in ids]
            problems += [f"{chapter}, cell {number}: {complaint}" for complaint in complaints]
    return mentions, problems


def worked_calls(source: str) -> tuple[list[str], list[str]]:
    """Ids of the `worked` calls in the source of a code cell, and complaints about the calls.

    A call whose id is not written as a string, or whose value is typed in, is a complaint and
    covers nothing. Lines with notebook magic (% or !) and cells of another language are skipped.
    """
    ids: list[str] = []
    complaints: list[str] = []
    try:
        tree = ast.parse(without_magic(source))
    except SyntaxError as error:
        return [], [f"not valid Python, line {error.lineno}: {error.msg}"]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not calls_worked(node.func):
            continue
        id = literal_id(node)
        if id is None:
            complaints.append("worked needs its id written as a string")
        elif not _has_computed_values(node):
            complaints.append(f"worked({id!r}) compares a value that is typed in")
        else:
            ids.append(id)
    return ids, complaints


def is_computed(node: ast.expr) -> bool:
    """Whether an expression depends on anything but constants; in a dict display, each value."""
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(is_computed(value) for value in node.values)
    if isinstance(node, ast.Call) and name_of(node.func) in SPELLINGS:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        return any(is_computed(argument) for argument in arguments)
    if isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return True
    children = ast.iter_child_nodes(node)
    return any(is_computed(child) for child in children if isinstance(child, ast.expr))


def coverage(
    ledger: Mapping[str, bool],
    mentions: Iterable[Mention],
    left_out: Mapping[str, str],
    chapters: Iterable[Chapter],
) -> Coverage:
    """Sort the ids of `ledger` (id -> whether it has a check) into the four groups.

    `left_out` gives the reason for each id that the book does not cover on purpose. An id is
    missing once every chapter that lists its topic is finished.
    """
    places = sorted(mentions)
    rows = tuple(chapters)
    covered = {id: _places_of(id, checked, places) for id, checked in ledger.items()}
    covered = {id: found for id, found in covered.items() if found}
    open_ids = [id for id in ledger if id not in covered and id not in left_out]
    waiting = {id: _unfinished(id, rows) for id in open_ids}
    return Coverage(
        covered=covered,
        left_out={id: left_out[id] for id in ledger if id in left_out and id not in covered},
        not_yet_written={id: files for id, files in waiting.items() if files},
        missing={id: _needs(ledger[id]) for id, files in waiting.items() if not files},
        problems=tuple(_problems(ledger, places, left_out, rows, covered)),
    )


def _problems(
    ledger: Mapping[str, bool],
    places: Iterable[Mention],
    left_out: Mapping[str, str],
    chapters: Iterable[Chapter],
    covered: Mapping[str, object],
) -> list[str]:
    """Unknown ids anywhere, topics without a chapter, reasons that are empty or out of date."""
    named = {(place.id, f"{place.chapter}, cell {place.cell}") for place in places}
    named |= {(id, "not_covered.yaml") for id in left_out}
    topics = {topic for chapter in chapters for topic in chapter.topics}
    homeless = sorted({topic_of(id) for id in ledger} - topics)
    found = [f"{where}: unknown id {id!r}" for id, where in sorted(named) if id not in ledger]
    found += [f"no chapter lists the topic {topic!r}" for topic in homeless]
    found += [f"not_covered.yaml: {id!r} needs a reason" for id in left_out if not left_out[id]]
    found += [f"not_covered.yaml: {id!r} is covered after all" for id in left_out if id in covered]
    return found


def topic_of(id: str) -> str:
    """The part of an id before its first dash: `kv` of `kv-worked-1gib`."""
    return id.partition("-")[0]


def _places_of(id: str, checked: bool, places: Iterable[Mention]) -> tuple[Mention, ...]:
    return tuple(place for place in places if place.id == id and place.by_number == checked)


def _unfinished(id: str, chapters: Iterable[Chapter]) -> tuple[str, ...]:
    return tuple(c.file for c in chapters if topic_of(id) in c.topics and not c.finished)


def _needs(checked: bool) -> str:
    return "needs a worked call" if checked else "needs a cell that covers it"


def without_magic(source: str) -> str:
    """The source of a cell with empty lines for notebook magic, and none in another language."""
    lines = [] if source.startswith("%%") else source.splitlines()
    return "\n".join("" if line.startswith(("%", "!")) else line for line in lines)


def calls_worked(function: ast.expr) -> bool:
    """Whether what is called is `worked`, `lab.worked` or the like."""
    return name_of(function) == "worked"


def name_of(function: ast.expr) -> str | None:
    """The last part of a dotted name: `worked` of `lab.worked`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def literal_id(call: ast.Call) -> str | None:
    """The id of a `worked` call, where it is written as a string."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return None


def _has_computed_values(call: ast.Call) -> bool:
    values = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    return bool(values) and all(is_computed(value) for value in values)
