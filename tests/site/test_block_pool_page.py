"""The block pool in a browser: drawn from a trace, read by keyboard, narrow, dark and printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page

import lab
from lab.figures.scene import Figure
from lab.widgets.modules import module, style

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A figure</title>
<meta name="viewport" content="width=device-width"><style>{style}
html[data-theme="dark"] body {{ background: #12161d }}</style></head><body><main id="here"></main>
<script type="application/json" id="scenes">{scenes}</script>
<script type="text/plain" id="source">{source}</script>
<script type="module">
  const text = (id) => document.getElementById(id).textContent;
  const file = new Blob([text("source")], {{ type: "text/javascript" }});
  const {{ default: widget }} = await import(URL.createObjectURL(file));
  const values = {{ scenes: JSON.parse(text("scenes")), step: 0 }};
  const nothing = () => {{}};
  const model = {{ get: (name) => values[name], set: nothing, save_changes: nothing, on: nothing }};
  widget.render({{ model, el: document.getElementById("here") }});
  document.body.dataset.drawn = "yes";
</script></body></html>"""


@contextmanager
def shown(
    browser: Browser, *figures: Figure, width: int = 1000, theme: str = "light"
) -> Iterator[Page]:
    """A page with a player for the figures, and nothing that went wrong on it."""
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    scenes = json.dumps([figure.to_json() for figure in figures]).replace("<", "\\u003c")
    page.set_content(PAGE.format(style=style(), source=module("player"), scenes=scenes))
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    page.wait_for_selector("body[data-drawn]")
    yield page
    assert errors == []
    context.close()


def forked() -> Figure:
    work = lab.Workload.given({"A": {"prompt": 6, "output": 5, "n": 2}, "B": (1, 5, 4)})
    policy = lab.Continuous(seats=3, blocks=10, block_tokens=4)
    return lab.block_pool(lab.simulate(work, policy, lab.CostModel.equal_steps()))
