"""Sphinx extension: the sources are a list that screen readers can count.

docutils gives each source the role doc-biblioentry, which no list may hold and ARIA has dropped.
"""

from __future__ import annotations

from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("html-page-context", _make_list_items)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _make_list_items(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
