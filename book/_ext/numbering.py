"""Sphinx extension: figures, tables, exercises and examples have numbers and permanent anchors.

A code cell with `{"figure": "two-seats"}` in its metadata shows figure n.m and can be linked as
`#figure-two-seats`: the number counts within the chapter, the anchor stays. `table` and `exercise`
work the same way. A heading that begins with "Example 2.1" has the anchor `#example-2-1`. Each
anchor is a label too: `` {ref}`figure-two-seats` ``.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.util import logging

KINDS = ("figure", "table", "exercise")
HEADING = re.compile(r"(Example|Table|Exercise) (\d+)\.(\d+)\b")

log = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("doctree-read", _number, priority=400)  # before the table of contents is taken
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _number(app: Any, doctree: nodes.document) -> None:
    for section in doctree.findall(nodes.section):
        if found := HEADING.match(section[0].astext()):
            anchor = "-".join(found.groups()).lower()
            _label(app, doctree, section, anchor, found[0])
    count = dict.fromkeys(KINDS, 0)
    for cell in _cells(doctree):
        for kind in KINDS:
            if name := cell["cell_metadata"].get(kind):
                count[kind] += 1
                title = f"{kind.capitalize()} {_chapter(app.env.docname)}{count[kind]}"
                _label(app, doctree, cell, f"{kind}-{name}", title)
                _caption(cell, kind, name, title)


def _cells(doctree: nodes.document) -> list[nodes.container]:
    cells = doctree.findall(nodes.container)
    return [cell for cell in cells if cell.get("nb_element") == "cell_code"]


def _chapter(docname: str) -> str:
    """`2.` for chapters/02-batching; nothing for a page that is no chapter."""
    found = re.match(r"chapters/(\d+)-", docname)
    return f"{int(found[1])}." if found else ""


def _label(app: Any, doctree: nodes.document, node: nodes.Element, anchor: str, title: str) -> None:
    if anchor not in node["ids"]:
        if anchor in doctree.ids:
            log.warning("two things on this page are called %s", anchor, location=node)
        node["ids"].insert(0, anchor)
        doctree.ids[anchor] = node
    app.env.get_domain("std").note_hyperlink_target(anchor, app.env.docname, anchor, title)


def _caption(cell: nodes.container, kind: str, name: str, title: str) -> None:
    """Put the number below a figure, and above what is read from the top."""
    output = cell[-1]
    if output.get("nb_element") != "cell_code_output":
        log.warning("%s %s shows nothing", kind, name, location=cell)
        return
    line = nodes.paragraph(classes=["number-line"])
    line += nodes.reference("", title, refid=f"{kind}-{name}", internal=True)
    if kind == "figure":
        line += nodes.reference("", "Show this figure alone", refuri=f"?figure={name}")
    output.insert(len(output) if kind == "figure" else 0, line)
