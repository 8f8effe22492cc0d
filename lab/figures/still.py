"""Scenes standing still: an SVG of the last frame, for print, for a README, for pages without
scripts. Colours follow the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lab.figures import palette
from lab.figures.scene import Mark, Scene
from lab.ledgers.table import show

_LANE, _GAP, _LEFT, _COLUMN = 34, 8, 72, 52

_STYLE = f"""
text {{ fill: var(--tif-ink); font: 13px system-ui, sans-serif }}
text {{ font-variant-numeric: tabular-nums }}
.title {{ font-weight: 600 }} .soft {{ fill: var(--tif-soft) }}
.on {{ fill: var(--tif-on); font-weight: 600 }}
.idle {{ fill: none; stroke: var(--tif-soft); stroke-dasharray: 4 3 }}
.shared {{ fill: none; stroke: var(--tif-ink) }}
.card {{ fill: var(--tif-card) }} .axis {{ stroke: var(--tif-line) }}
.wait {{ stroke: var(--tif-soft); stroke-width: 2; stroke-dasharray: 2 4 }}
.hatch {{ stroke: var(--tif-on); stroke-width: 1.5; opacity: .55 }}
{" ".join(f".{name} {{ fill: var(--tif-{name}) }}" for name in palette.REQUESTS)}
:root {{ {palette.variables(palette.LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {palette.variables(palette.DARK)} }} }}
"""


def still(scenes: Sequence[Scene], label: str) -> str:
    """An SVG of the scenes, one below the other and all on one axis. `label` is what a screen
    reader says. Raises ValueError for scenes of different units."""
    units = {scene.unit for scene in scenes}
    if len(units) != 1:
        raise ValueError(f"scenes on one axis must have one unit, got {sorted(units)}")
    end = max(float(mark.stop) for scene in scenes for mark in scene.marks)
    columns = max(len(scene.frames) for scene in scenes)
    scale = _COLUMN * columns / end
    parts, top = [], 8
    for scene in scenes:
        drawn, height = _scene(scene, scale, top)
        parts.append(drawn)
        top += height
    width = _LEFT + _COLUMN * columns + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" '
        f'height="{top}" role="img" aria-label="{escape(label)}"><style>{_STYLE}</style>'
        f'<rect class="card" width="100%" height="100%" rx="8"/>{"".join(parts)}</svg>\n'
    )


def _scene(scene: Scene, scale: float, top: int) -> tuple[str, int]:
    who = sorted({mark.who for mark in scene.marks if mark.who})
    own = all(len(name) == 1 and name.lower() in palette.REQUESTS for name in who)
    colour = {
        name: name.lower() if own else palette.REQUESTS[index % len(palette.REQUESTS)]
        for index, name in enumerate(who)
    }
    lanes = {lane: top + 34 + index * (_LANE + _GAP) for index, lane in enumerate(scene.lanes)}
    out = [f'<text class="title" x="12" y="{top + 18}">{escape(scene.title)}</text>']
    out += [
        f'<text class="soft" x="12" y="{y + 22}">{escape(lane)}</text>' for lane, y in lanes.items()
    ]
    free = 0.0
    for mark in scene.marks:
        out.append(_mark(mark, colour, lanes[mark.lane], scale))
        x = float(mark.start) * scale
        if mark.role == "queued" and x >= free:  # else the label before it is still going on
            out.append(_words(mark.label, x, lanes[mark.lane]))
            free = x + 8 * len(mark.label) + 8
    foot = top + 34 + len(lanes) * (_LANE + _GAP)
    for frame in scene.frames:
        x = _LEFT + float(frame.at) * scale
        out.append(f'<path class="axis" d="M{x:.1f} {foot - 4}v4"/>')
        out.append(
            f'<text class="soft" x="{x + 4:.1f}" y="{foot + 14}">{escape(frame.label)}</text>'
        )
    out.append(f'<text class="soft" x="12" y="{foot + 14}">{escape(scene.unit)}</text>')
    out.append(f'<text x="{_LEFT}" y="{foot + 36}">{escape(scene.finding)}</text>')
    return "".join(out), foot + 52 - top


def _words(label: str, x: float, y: int) -> str:
    return f'<text x="{_LEFT + x + 8:.1f}" y="{y + 22}">{escape(label)}</text>'


def _mark(mark: Mark, colour: dict[str, str], y: int, scale: float) -> str:
    x, width = _LEFT + float(mark.start) * scale, float(mark.stop - mark.start) * scale - 3
    label = escape(mark.label)
    if mark.role == "queued":
        return f'<path class="wait" d="M{x:.1f} {y + 28}h{width:.1f}"/>'
    box = f'x="{x:.1f}" y="{y}" width="{max(width, 3):.1f}" height="{_LANE}" rx="4"'
    if mark.role == "idle":
        return (
            f'<rect class="idle" {box}/><text class="soft" x="{x + 8:.1f}" y="{y + 22}">idle</text>'
        )
    if mark.role == "shared":
        inner = f'x="{x + 3:.1f}" y="{y + 3}" width="{max(width - 6, 1):.1f}" height="{_LANE - 6}"'
        both = f'<rect class="shared" {box}/><rect class="shared" {inner} rx="2"/>'
        return f'{both}<text x="{x + 8:.1f}" y="{y + 22}">{label}</text>'
    hatch = ""
    if mark.role in ("prefill", "recompute"):
        lines = "".join(
            f"M{x + step:.1f} {y + _LANE}l12 -{_LANE}" for step in range(26, int(width) - 12, 7)
        )
        hatch = f'<path class="hatch" d="{lines}"/>'
    fill = colour.get(mark.who or "", "a")
    text = f'<text class="on" x="{x + 8:.1f}" y="{y + 22}">{label or show(mark.start)}</text>'
    return f'<rect class="{fill}" {box}/>{hatch}{text}'
