"""Sphinx extension: the charts of a page, drawn while it is built.

A page asks no script for them. Each is there in two widths, and charts.css shows the one that fits;
its colours are those of the page, by name, so that they follow the switch; its words are text, and
its numbers a folded table.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any, ClassVar

import vl_convert
from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer, load_mime_renders

from lab.figures import palette
from lab.figures.vega import MIME, WIDTH
from lab.ledgers.table import Table

WIDTHS = {"wide": WIDTH, "narrow": 284}
"""In pixels. The narrow one fits a telephone of 360."""
VERSION = "5.21"
"""Of Vega-Lite: what JupyterLab draws, too."""
NAMES = {colour: f"var(--tif-{name})" for name, colour in reversed(palette.LIGHT.items())}
NUMBERS = "The numbers of this chart"

_COLOUR = re.compile(r'\b(fill|stroke)="([^"]+)"')
_PLACE = re.compile(r'\b(d|transform|x|y|x2|y2)="([^"]+)"')
_SAID = re.compile(
    r' (?:aria-[a-z]+|role|class|font-[a-z]+|pointer-events|opacity="1"|xmlns:xlink|version)'
    r'(?:="[^"]*")?(?=[ />])'
)
_UNSEEN = re.compile(r'<path [^>]*display="none"[^>]*/>|<path [^>]*d="M0,0h0v0h0Z"[^>]*/>')


class Charts:
    """What myst-nb asks whether it can draw an output."""

    mime_priority_overrides: ClassVar = [("html", MIME, 5)]  # before the text form

    @staticmethod
    def handle_mime(
        renderer: NbElementRenderer, data: MimeData, inline: bool
    ) -> list[nodes.Element] | None:
        """The nodes of a chart; None for what is none, or not one of this book."""
        if data.mime_type != MIME or "usermeta" not in data.content:
            return None
        return [on_page(data.content)]  # type: ignore[arg-type]


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    renderers = load_mime_renders()  # one list for all that ask
    if Charts not in renderers:
        renderers.append(Charts)  # type: ignore[arg-type]
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def on_page(spec: dict[str, Any]) -> nodes.container:
    """A chart with its words. The tag is emphasised: `definitions` makes a link of it."""
    told = spec["usermeta"]
    table = Table(
        tuple(told["columns"]), tuple(map(tuple, told["rows"])), notes=tuple(told["notes"])
    )
    folded = (
        f"<details><summary>{NUMBERS}</summary><p>{escape(told['shape'])}</p>"
        f"{_scrolled(table)}</details>"
    )
    conditions = nodes.paragraph("", f"{told['conditions']} ", classes=["conditions"])
    conditions += nodes.emphasis("", told["tag"])
    drawn = "".join(svg(spec, name) for name in WIDTHS)
    return nodes.container(
        "",
        nodes.paragraph("", told["title"], classes=["title"]),
        conditions,
        nodes.raw("", f'<div class="drawn">{drawn}</div>', format="html"),
        nodes.paragraph("", told["finding"], classes=["finding"]),
        nodes.raw("", folded, format="html"),
        classes=["chart"],
    )


def _scrolled(table: Table) -> str:
    """A table that may be wider than a page: keys must reach it, to scroll it."""
    return table._repr_html_().replace("<div ", '<div tabindex="0" ', 1)


def svg(spec: dict[str, Any], name: str) -> str:
    """The drawing alone, in one of the two widths, as an SVG that names itself.

    Raises ValueError for a colour that the palette does not have.
    """
    told = spec["usermeta"]
    bare = {key: value for key, value in spec.items() if key not in ("title", "usermeta")}
    bare["config"] = {**spec["config"], "background": None, "padding": 2}
    drawn = vl_convert.vegalite_to_svg({**bare, "width": WIDTHS[name]}, vl_version=VERSION)
    drawn = _SAID.sub("", _UNSEEN.sub("", drawn))
    drawn = _PLACE.sub(_rounded, _COLOUR.sub(_named, drawn))
    said = f"<title>{escape(told['title'])}</title><desc>{escape(told['shape'])}</desc>"
    return drawn.replace("<svg ", f'<svg class="{name}" role="img" ', 1).replace(">", f">{said}", 1)


def _named(found: re.Match[str]) -> str:
    attribute, colour = found.groups()
    if colour in ("none", "transparent"):
        return found[0]
    if colour not in NAMES:
        raise ValueError(f"a chart takes its colours from the palette, which has no {colour!r}")
    return f'{attribute}="{NAMES[colour]}"'


def _rounded(found: re.Match[str]) -> str:
    """Places to a tenth of a pixel."""
    short = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", found[2])
    return f'{found[1]}="{short}"'
