"""Sphinx extension: what covers a worked number can be linked as `#worked-ID`.

The row of a `worked` call has the anchor; where no row is shown, its cell. A Markdown or code cell
that names an id in its metadata (`covers`) has it too. What covers an id for the second time in the
book is `#worked-ID--2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util import logging

from book.coverage import Coverage, of_book
from lab.worked_numbers import entries, entry

LINES = 10_000  # myst-nb counts the lines of cell n from (n + 1) times this

log = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("builder-inited", _read_coverage)
    app.connect("doctree-read", _anchor)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read_coverage(app: Any) -> None:
    ledger = {id: entry(id).checked for id in entries()}
    app.worked_number_coverage = of_book(Path(app.srcdir), ledger)


def _anchor(app: Any, doctree: nodes.document) -> None:
    folder, _, chapter = app.env.docname.rpartition("/")
    covered: Coverage = app.worked_number_coverage
    for place, anchor in covered.anchors().items():
        if (folder, place.chapter) != ("chapters", chapter):
            continue
        code = next((c for c in _code_cells(doctree) if c["cell_index"] == place.cell), None)
        if code is not None:
            _to_row(code, place.id, anchor) or code["ids"].append(anchor)
        elif not _to_text(doctree, place.cell, anchor):
            log.warning("%s has no place on this page", anchor, location=doctree)


def _code_cells(doctree: nodes.document) -> Iterator[nodes.container]:
    for container in doctree.findall(nodes.container):
        if container.get("nb_element") == "cell_code":
            yield container


def _to_row(cell: nodes.container, id: str, anchor: str) -> bool:
    """Give the anchor to the row that `worked` shows for `id`, if this cell shows one."""
    row = f'<div class="worked-number"><code>{escape(id)}</code>'
    for output in cell.findall(nodes.raw):
        if row in output.astext():
            html = output.astext().replace(row, row.replace(">", f' id="{anchor}">', 1), 1)
            output.replace_self(nodes.raw(output.rawsource, html, **output.attributes))
            return True
    return False


def _to_text(doctree: nodes.document, cell: int, anchor: str) -> bool:
    """Put the anchor before the first thing of a Markdown cell, or below its heading."""
    mark = nodes.target("", "", ids=[anchor], classes=["worked-place"])
    for node in doctree.findall(nodes.Element):
        is_here = (node.line or 0) // LINES == cell + 1 and isinstance(node.parent, nodes.section)
        if is_here and not isinstance(node, nodes.section):
            below = isinstance(node, nodes.title)
            node.parent.insert(node.parent.index(node) + below, mark)
            return True
    return False
