"""One self-contained module and one style sheet for a widget: in a notebook it can reach no file.

The JavaScript files beside this one are plain modules that import one another. `module` joins a
file with all that it imports, each in a scope of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab.figures import palette

_HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)


def module(name: str) -> str:
    """The source of `name`.js with everything that it imports, as one ES module."""
    parts: dict[str, str] = {}
    _collect(name, parts)
    return "\n".join([*parts.values(), _local(_source(name))])


def style() -> str:
    """The style sheet of all widgets, with the palette for light and dark."""
    dark = 'html[data-theme="dark"] .tif, body[data-jp-theme-light="false"] .tif'
    return palette.css(".tif", dark) + (_HERE / "style.css").read_text("utf-8")


def _collect(name: str, parts: dict[str, str]) -> None:
    """Put the modules that `name` imports into `parts`, each after those that it imports."""
    for found in _IMPORT.finditer(_source(name)):
        needed = found[2]
        if needed not in parts:
            _collect(needed, parts)
            text = _source(needed)
            names = ", ".join(_EXPORT.findall(text))
            body = re.sub(r"^export default .*$", "", _local(text), flags=re.MULTILINE)
            body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
            parts[needed] = f"const $${needed} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


def _local(text: str) -> str:
    """The text with its imports read from the modules that stand before it."""
    return _IMPORT.sub(lambda m: f"const {{{m[1].replace(' as ', ': ')}}} = $${m[2]};", text)


def _source(name: str) -> str:
    return (_HERE / f"{name}.js").read_text("utf-8")
