"""Sphinx extension: what docutils and myst-nb tell screen readers wrongly is put right."""

from __future__ import annotations

from typing import Any

REPAIRS = {
    # no list may hold an item of this role, and ARIA has dropped it
    'role="doc-biblioentry"': 'role="listitem"',
    # an empty cell heads nothing, and a head says which way it looks
    '<th class="head"><p></p></th>': "<td></td>",
    '<th class="head">': '<th class="head" scope="col">',
    # the words that are seen are the name, or nobody can call the button by voice
    '<summary aria-label="Toggle hidden content">': "<summary>",
}


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("html-page-context", _repair)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _repair(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for wrong, right in REPAIRS.items():
        context["body"] = context.get("body", "").replace(wrong, right)
