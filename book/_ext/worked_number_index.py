"""Sphinx extension: `{worked-number-index}` is the list of all worked numbers.

One section a topic, one row an entry: what is said, given, right and wrong, and where it is
covered, with a link to the very place and the lines that compute it. Then what the sources
disagree on. `_static/worked_numbers.js` searches in it and copies; without it all rows are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from book.coverage import Chapter, Coverage, Mention, read_chapters, topic_of
from book.snippet import snippet
from lab.worked_numbers import Entry, Result, entries, entry

LEDGER = Path(__file__).resolve().parents[2] / "lab" / "worked_numbers.json"
SEARCH = (
    '<div class="number-search" role="search" hidden>'
    '<label for="number-search">Search by id, word, topic or chapter</label> '
    '<input type="search" id="number-search" autocomplete="off" spellcheck="false">'
    '<p role="status"></p></div>'
)
COPIED = '<p class="visually-hidden" role="status" id="number-copied"></p>'


class Index(SphinxDirective):
    """The whole list, as sections below the heading that the directive stands under."""

    def run(self) -> list[nodes.Node]:
        """The counts and the search, the topics, the conflicts and the ambiguities."""
        book = Book(self.env)
        document = json.loads(LEDGER.read_text(encoding="utf-8"))
        made = [_raw(f"<p>{_counts(book.coverage)}</p>{SEARCH}{COPIED}")]
        for topic, ids in book.by_topic().items():
            rows = (_row(entry(id), book) for id in ids)
            made.append(self._section(f"topic-{topic}", book.topics[topic], rows))
        conflicts = (_conflict(raw, book) for raw in document["conflicts"])
        made.append(self._section("conflicts", "Where the sources disagree", conflicts))
        unclear = "".join(_ambiguity(raw, book) for raw in document["ambiguities"])
        told = f"{len(document['ambiguities'])} places, and how each is read"
        folded = f"<details><summary>{told}</summary>{unclear}</details>"
        made.append(self._section("ambiguities", "Where a source is unclear", [folded]))
        return made

    def _section(self, name: str, title: str, rows: Iterable[str]) -> nodes.section:
        section = nodes.section(ids=[name], names=[name])
        self.state.document.note_implicit_target(section, section)
        section += [nodes.title("", title), _raw("".join(rows))]
        return section


class Book:
    """What the rows need to know of the book: its chapters, its topics, and who covers what."""

    def __init__(self, env: Any) -> None:
        root = Path(env.srcdir)
        document = yaml.safe_load((root / "book" / "chapters.yaml").read_text(encoding="utf-8"))
        self.topics: dict[str, str] = document["topics"]
        self.chapters = {chapter.file: chapter for chapter in read_chapters(document)}
        self.coverage: Coverage = env.app.worked_number_coverage
        self.anchors = self.coverage.anchors()
        self.notebooks = {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in (root / "chapters").glob("*.ipynb")
        }
        self._env = env

    def by_topic(self) -> dict[str, list[str]]:
        """The ids of each topic, topics in the order of the book."""
        ids: dict[str, list[str]] = {
            topic: [] for chapter in self.chapters.values() for topic in chapter.topics
        }
        for id in entries():
            ids[topic_of(id)].append(id)
        return ids

    def places(self, id: str) -> list[Mention]:
        """Where an entry is covered, each cell once."""
        return list(dict.fromkeys(self.coverage.covered.get(id, ())))

    def link(self, place: Mention) -> str:
        """A link to a place that names the chapter and the heading above it."""
        chapter = self.chapters[place.chapter]
        headings = _headings(self.notebooks[place.chapter], place.cell)[1:]  # after the title
        words = _chapter(chapter)
        if headings:
            words = f"chapter {_number(chapter)} ({chapter.question}), {headings[-1]}"
        words = escape(words, quote=False)
        page = f"chapters/{place.chapter}"
        if page not in self._env.found_docs:
            return words
        address = self._env.app.builder.get_relative_uri(self._env.docname, page)
        return f'<a href="{address}#{self.anchors[place]}">{words}</a>'

    def where(self, id: str) -> str:
        """In words, as HTML: the places that cover an entry, or why none does."""
        coverage = self.coverage
        if id in coverage.covered:
            return f"In {'; and in '.join(self.link(place) for place in self.places(id))}"
        if id in coverage.not_yet_written:
            files = coverage.not_yet_written[id]
            words = " or ".join(_chapter(self.chapters[file]) for file in files)
            return f"Not yet written: {escape(words)}"
        words = coverage.where(id)
        return escape(words[0].upper() + words[1:], quote=False)

    def files(self, id: str) -> tuple[str, ...]:
        """The chapters that cover an entry or will."""
        places = (place.chapter for place in self.places(id))
        return (*dict.fromkeys(places), *self.coverage.not_yet_written.get(id, ()))


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("worked-number-index", Index)
    app.connect("html-page-context", _bring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _bring(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The page with the list needs a script and a style sheet."""
    if SEARCH in context.get("body", ""):
        app.add_js_file("worked_numbers.js", priority=900, defer="defer")
        app.add_css_file("worked_numbers.css", priority=900)


def _raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def _counts(coverage: Coverage) -> str:
    groups = {
        "covered": coverage.covered,
        "not yet written": coverage.not_yet_written,
        "left out with a reason": coverage.left_out,
        "due and missing": coverage.missing,
    }
    shown = [
        f"{len(ids)} {words}" for words, ids in groups.items() if ids or words != "due and missing"
    ]
    return f"{sum(map(len, groups.values()))} entries: {', '.join(shown)}."


def _chapter(chapter: Chapter) -> str:
    return f"chapter {_number(chapter)}, {chapter.question}"


def _number(chapter: Chapter) -> int:
    return int(chapter.file[:2])


def _headings(notebook: Mapping[str, Any], cell: int) -> list[str]:
    """The headings that stand above the content of a cell, in order, without their marks."""
    found: list[str] = []
    for number, one in enumerate(notebook["cells"][: cell + 1]):
        source = "".join(one["source"])
        if one["cell_type"] == "markdown" and (number < cell or source.startswith("#")):
            shown = re.sub(r"^```.*?^```", "", source, flags=re.MULTILINE | re.DOTALL)
            text = source.split("\n")[0] if number == cell else shown
            found += re.findall(r"^#{1,6} +(.+)$", text, flags=re.MULTILINE)
    return [re.sub(r"[*`]", "", heading) for heading in found]


# One row


def _row(one: Entry, book: Book) -> str:
    parts = [
        f'<h3><a href="#{one.id}">{one.id}</a></h3>',
        f'<p class="about">{escape(one.kind)}; source {one.source}, {escape(one.section)}</p>',
        f"<p>{escape(one.statement, quote=False)}</p>",
        _numbers(one),
        _disputed(one),
        f'<p class="about">{escape(one.note, quote=False)}</p>' if one.note else "",
        f'<p class="where">{book.where(one.id)}</p>',
        *_lines(one, book),
    ]
    files = " ".join(book.files(one.id))
    return f'<div class="number-row" id="{one.id}" data-in="{files}">{"".join(parts)}</div>'


def _numbers(one: Entry) -> str:
    """What is given, what comes out, and beside it what the wrong way gives."""
    groups = {
        "Given": one.given,
        "Result": _texts(one.expected),
        "The wrong way": _texts(one.wrong),
    }
    lists = "".join(
        f"<div><dt>{title}</dt>{''.join(_named(texts))}</div>"
        for title, texts in groups.items()
        if texts
    )
    return f"<dl>{lists}</dl>" if lists else ""


def _texts(results: Mapping[str, Result]) -> dict[str, str]:
    return {name: result.text for name, result in results.items()}


def _named(texts: Mapping[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        yield f"<dd><code>{escape(name)}</code> {escape(text)}</dd>"


def _disputed(one: Entry) -> str:
    if not one.disputed:
        return ""
    return (
        "<p><strong>Disputed:</strong> the statement does not hold as the source has it. "
        f"What holds: {escape(one.correct or '')}</p>"
    )


def _lines(one: Entry, book: Book) -> Iterator[str]:
    """The lines that compute a number, to copy or to read."""
    first = next((place for place in book.places(one.id) if place.by_number), None)
    if first:
        code = snippet(book.notebooks[first.chapter], first.cell, one.id)
        label = f"Copy the lines that compute {one.id}"
        yield f'<button type="button" hidden aria-label="{label}">Copy the lines</button>'
        yield "<details><summary>The lines that compute it</summary>"
        yield f"<pre>{escape(code.rstrip(), quote=False)}</pre></details>"


# Conflicts and ambiguities


def _conflict(raw: Mapping[str, Any], book: Book) -> str:
    positions = "".join(
        f"<li>Source {one['source']}, {escape(one['section'])}: {escape(one['says'])}</li>"
        for one in raw["positions"]
    )
    effect = raw["numeric_effect"]
    return (
        f'<div class="number-row source-note" id="{raw["id"]}"><h3>{escape(raw["topic"])}</h3>'
        f"<ul>{positions}</ul>"
        f"{f'<p>In numbers: {escape(effect)}</p>' if effect else ''}"
        f"<p><strong>Used here:</strong> {escape(raw['advice'])}</p>"
        f"{_entries(raw, book)}</div>"
    )


def _ambiguity(raw: Mapping[str, Any], book: Book) -> str:
    return (
        f'<div class="number-row source-note" id="{raw["id"]}">'
        f"<p>Source {raw['source']}, {escape(raw['section'])}: {escape(raw['issue'])}</p>"
        f"<p><strong>Read here as:</strong> {escape(raw['reading_used'])}</p>"
        f"{_entries(raw, book)}</div>"
    )


def _entries(raw: Mapping[str, Any], book: Book) -> str:
    items = "".join(f'<li><a href="#{id}">{id}</a>: {book.where(id)}</li>' for id in raw["entries"])
    return f'<ul class="about">{items}</ul>'
