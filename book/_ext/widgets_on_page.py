"""Sphinx extension: the saved widgets of a page, each module and style sheet once.

A notebook's widget state repeats the whole source of a widget for every one on the page, and brings
models that draw nothing. What is left here is what `_static/widgets.js` reads.
"""

from __future__ import annotations

import json
from typing import Any

STATE = "application/vnd.jupyter.widget-state+json"
SHARED = ("_esm", "_css")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("html-page-context", _once_each, priority=900)  # after myst-nb added the state
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _once_each(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    for script in list(context["script_files"]):
        attributes = getattr(script, "attributes", {})
        if attributes.get("type") == STATE:
            state, texts = share(json.loads(attributes["body"]))
            attributes["body"] = in_script(json.dumps(state, separators=(",", ":")))
            for name, text in texts.items():
                app.add_js_file(None, type="text/plain", id=name, body=in_script(text))


def share(saved: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The state of the widgets that bring their own module, in which each source is a name, and
    the source of each name."""
    names: dict[str, str] = {}
    state = {}
    for model, entry in saved["state"].items():
        values = entry["state"]
        if "_esm" in values:
            state[model] = {"state": {k: v for k, v in values.items() if k not in _UNUSED}}
            for key in SHARED:
                text = values.get(key, "")
                state[model]["state"][key] = names.setdefault(text, f"shared{len(names)}")
    return {"state": state}, {name: text for text, name in names.items()}


def in_script(text: str) -> str:
    """A text that cannot end the script element it stands in."""
    return text.replace("</", "<\\/")


_UNUSED = {
    *("layout", "tabbable", "tooltip", "_dom_classes", "_anywidget_id"),
    *("_model_module", "_model_module_version", "_model_name"),
    *("_view_count", "_view_module", "_view_module_version", "_view_name"),
}
