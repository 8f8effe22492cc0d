"""Sphinx extension: a term or a tag brings its definition to the page that uses it.

`` {term}`prefill` `` is Sphinx's own link to the glossary. `` {tag}`given` `` is the same link to
the legend of the tags, drawn as a tag. A notebook is also read without Sphinx: in a chapter the
plain *prefill* and *given* do the same, where a term or a tag has that name.

Every definition that a page needs stands hidden at its end; `_static/definitions.js` shows it
beside the link.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.utils import new_document
from sphinx import addnodes
from sphinx.roles import XRefRole

LEGEND = "book/tags"
TAGS = ("given", "derived", "measured", "cited")


class Tag(XRefRole):
    """A link to a term of the legend, such as given or measured."""

    def create_xref_node(self) -> Any:
        """Make the link; a tag that the legend does not define is a warning."""
        self.refdomain, self.reftype = "std", "term"
        self.classes = ["tag"]
        return super().create_xref_node()


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_role("tag", Tag(lowercase=True, innernodeclass=nodes.inline, warn_dangling=True))
    app.connect("doctree-read", _link_emphasised)
    app.connect("missing-reference", _leave_emphasised)
    app.connect("html-page-context", _bring_definitions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _link_emphasised(app: Any, doctree: nodes.document) -> None:
    """Make every emphasised word of a chapter a link to the term of that name, if there is one."""
    if not app.env.docname.startswith("chapters/"):
        return
    for word in list(doctree.findall(nodes.emphasis)):
        name = word.astext().lower()
        shown = nodes.inline("", word.astext(), classes=["tag" if name in TAGS else "std-term"])
        link = addnodes.pending_xref(
            "", refdomain="std", reftype="term", reftarget=name, refdoc=app.env.docname
        )
        link["emphasised"] = word
        link += shown
        word.replace_self(link)


def _leave_emphasised(app: Any, env: Any, link: Any, shown: nodes.Node) -> nodes.Node | None:
    """A word that is no term stays what it was."""
    return link.get("emphasised")  # type: ignore[no-any-return]


def _bring_definitions(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Append the definitions to the page's body; a page that defines a term just links to it."""
    if doctree is None:
        return
    home = {id: doc for (kind, _), (doc, id) in _objects(app).items() if kind == "term"}
    used = {*_anchors(doctree), *(id for id, doc in home.items() if doc == LEGEND)}
    away = sorted(id for id in used if home.get(id, page) != page)
    if away:
        shown = "".join(_definition(app, id, home[id], page) for id in away)
        context["body"] += f'<div class="definitions" hidden>{shown}</div>'


def _objects(app: Any) -> dict[tuple[str, str], tuple[str, str]]:
    return app.env.get_domain("std").objects  # type: ignore[no-any-return]


def _anchors(doctree: nodes.document) -> Iterator[str]:
    """What the links of a page point at, without the page."""
    for link in doctree.findall(nodes.reference):
        yield link.get("refuri", "").rpartition("#")[2]


def _definition(app: Any, id: str, home: str, page: str) -> str:
    """One definition as HTML, its links made for the page that it is brought to."""
    term = next(t for t in app.env.get_doctree(home).findall(nodes.term) if id in t["ids"])
    copy = new_document(page)
    copy.settings.env = app.env
    copy += [node.deepcopy() for node in term.parent[-1].children]
    for link in copy.findall(addnodes.pending_xref):
        link["refdoc"] = page
    app.env.resolve_references(copy, page, app.builder)
    name = html.escape(term.astext())
    body = "".join(app.builder.render_partial(node)["fragment"] for node in copy.children)
    return f'<div id="definition-{id}" data-name="{name}">{body}</div>'
