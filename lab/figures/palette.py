"""The colours of the book, light and dark. Whoever draws, draws with these."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT = {
    "ink": "#1c2330",
    "soft": "#5b6575",
    "line": "#d9dee7",
    "page": "#ffffff",
    "card": "#fbfcfe",
    "accent": "#1f5fbf",
    "on": "#ffffff",  # text on a block
    "right": "#2b6a33",
    "wrong": "#a8321f",
    "a": "#2f6db3",
    "b": "#b4531f",
    "c": "#4c7a3a",
    "d": "#7b4fa3",
    "e": "#8a6d1b",
    "f": "#23777a",
}

DARK = {
    "ink": "#e7ebf2",
    "soft": "#a3adbd",
    "line": "#333c4a",
    "page": "#12161d",
    "card": "#171c25",
    "accent": "#8ab6ff",
    "on": "#0e1218",
    "right": "#86c98f",
    "wrong": "#f0937f",
    "a": "#5d97dc",
    "b": "#e0844c",
    "c": "#7fb069",
    "d": "#b48ad6",
    "e": "#c9a94a",
    "f": "#5fb3b3",
}

REQUESTS = ("a", "b", "c", "d", "e", "f")
"""The colours that requests take, in order of their names."""


def variables(colours: Mapping[str, str]) -> str:
    """The colours as CSS custom properties: `--tif-ink: #1c2330; ...`."""
    return " ".join(f"--tif-{name}: {colour};" for name, colour in colours.items())


def css(light: str, dark: str) -> str:
    """A style sheet that gives the selectors `light` and `dark` their colours."""
    return f"{light} {{ {variables(LIGHT)} }}\n{dark} {{ {variables(DARK)} }}\n"
