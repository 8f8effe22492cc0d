"""Sphinx extension: saved ipywidgets stand on the page, with a line that says what they are.

Figures draw themselves (`widgets_on_page`). ipywidgets are for what needs a kernel; on a page,
Jupyter's html-manager draws what was saved. It is large: only a page that holds such a widget loads
it, and only a site with such a page has it. Without scripts, the text form of the widget stands.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
PARTS = ROOT / "book" / "page_ipywidgets"
VENDOR = ROOT / "_build" / "vendor" / "node_modules"
MANAGER = VENDOR / "@jupyter-widgets" / "html-manager" / "dist"
SCRIPTS = (VENDOR / "requirejs" / "require.js", MANAGER / "libembed-amd.js", PARTS / "draw.js")
"""In the order in which a page runs them."""
STYLE = PARTS / "look.css"

VIEW = "application/vnd.jupyter.widget-view+json"
NOTE = "Saved when this page was built. To use these controls, open the chapter in JupyterLab."
ROOTS = "ipywidgets"
"""Where the metadata of a page names the models that html-manager draws there."""
DRAWN = {f"@jupyter-widgets/{name}" for name in ("base", "controls", "output")}
"""The modules that html-manager brings; any other would have to be fetched."""
LINKS = {"LinkModel", "DirectionalLinkModel"}
"""Models that nothing names: they name the two that they tie together."""

log = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("doctree-read", _stand)
    app.connect("html-page-context", _bring)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# The saved state: a dict of models, each {"model_module": ..., "state": {its values}}


def references(value: Any) -> Iterator[str]:
    """The models that a value names: as a child, layout or style, or shown in an Output widget."""
    if isinstance(value, str) and value.startswith("IPY_MODEL_"):
        yield value.removeprefix("IPY_MODEL_")
    elif isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == VIEW:
                yield item["model_id"]
            else:
                yield from references(item)


def closure(models: dict[str, Any], roots: Iterable[str]) -> set[str]:
    """The roots and all that they name, directly or not, saved or not."""
    found: set[str] = set()
    ahead = list(roots)
    while ahead:
        model = ahead.pop()
        if model not in found:
            found.add(model)
            ahead += references(models.get(model, {}).get("state"))
    return found


def kept(models: dict[str, Any], roots: Iterable[str]) -> dict[str, Any]:
    """The models that the roots need, and the links between these, in the order of the notebook."""
    needed = closure(models, roots)
    return {
        model: entry
        for model, entry in models.items()
        if model in needed
        or (entry["model_name"] in LINKS and needed.issuperset(references(entry["state"])))
    }


def undrawn(models: dict[str, Any], root: str) -> list[str]:
    """What keeps html-manager from drawing the root: the names of models it has no class for."""
    return sorted(
        {
            _name(models.get(model))
            for model in closure(models, [root])
            if model not in models or models[model]["model_module"] not in DRAWN
        }
    )


def _name(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "a model that was not saved"
    name: str = entry["state"].get("_anywidget_id", entry["model_name"])
    return name.rpartition(".")[2]


# The pages


def _saved(env: Any, page: str) -> dict[str, Any]:
    """The widget state that myst-nb found in a notebook."""
    _, script = NbMetadataCollector.get_js_files(env, page).get("ipywidgets_state", (None, None))
    return json.loads(script["body"]) if script else {"state": {}}


def _stand(app: Any, doctree: nodes.document) -> None:
    """Put a place to draw in, the text form and the line where an ipywidget was shown."""
    models = _saved(app.env, app.env.docname)["state"]
    roots = []
    for output in list(doctree.findall(_is_bundle)):
        forms = {form["mime_type"]: form for form in output.children}
        if VIEW not in forms:
            continue
        root = json.loads(re.sub("<.*?>", "", forms[VIEW].astext()))["model_id"]
        if root not in models or "_esm" in models[root]["state"]:
            continue  # widgets.js draws it, or says why not
        stands = nodes.container(classes=["saved-ipywidget"])
        if lacking := undrawn(models, root):
            log.warning(
                "a page cannot draw %s within ipywidgets: the text form stands there instead",
                ", ".join(lacking),
                location=output,
            )
        else:
            roots.append(root)
            stands += nodes.raw("", f'<div data-model="{root}"></div>', format="html")
        if "text/plain" in forms:
            text = [child.deepcopy() for child in forms["text/plain"].children]
            stands += nodes.container("", *text, classes=["text-form"])
        stands += nodes.paragraph("", NOTE, classes=["saved-note"])
        forms[VIEW].children = []
        forms[VIEW] += stands
    if roots:
        app.env.metadata[app.env.docname][ROOTS] = roots


def _is_bundle(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"


def _bring(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Name the scripts in the pages that need them, after all others, and add the state."""
    roots = app.env.metadata.get(page, {}).get(ROOTS)
    if not roots or not _is_fetched():
        return
    saved = _saved(app.env, page)
    state = json.dumps({**saved, "state": kept(saved["state"], roots)}, separators=(",", ":"))
    body = state.replace("<", "\\u003c")  # nothing in it can end the script element
    app.add_js_file(None, type="application/json", id="saved-ipywidgets", body=body)
    for script in SCRIPTS:
        app.add_js_file(f"{_folder()}/{script.name}", priority=900, defer="defer")
    app.add_css_file(f"{_folder()}/{STYLE.name}", priority=900)


def _is_fetched() -> bool:
    return all(script.is_file() for script in SCRIPTS)


@functools.cache
def _folder() -> str:
    """Named by its content, because hosts let browsers keep files for a while."""
    content = b"".join(file.read_bytes() for file in (*SCRIPTS, STYLE))
    return f"ipywidgets-{hashlib.sha256(content).hexdigest()[:10]}"


def _write(app: Any, error: Exception | None) -> None:
    """The files, if a page of the site needs them."""
    if error is not None:
        return
    static = Path(app.outdir) / "_static"
    for old in static.glob("ipywidgets-*"):
        shutil.rmtree(old)
    if not any(ROOTS in metadata for metadata in app.env.metadata.values()):
        return
    if not _is_fetched():
        log.warning(
            "the saved ipywidgets stand as text: `python book/vendor.py` fetches what draws them "
            "(`make site` does both)"
        )
        return
    folder = static / _folder()
    folder.mkdir()
    for file in (*SCRIPTS, STYLE, *MANAGER.glob("*.woff2")):
        shutil.copyfile(file, folder / file.name)
