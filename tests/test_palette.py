"""The palette: every text that is drawn with it can be read, in both modes."""

import re

import pytest

from lab.figures import palette

LEAST = 4.5
BESIDE = ["ink", "soft", "accent", "right", "wrong", *palette.REQUESTS]


def light_of(colour):
    """Relative luminance as in WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((light_of(one), light_of(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["page", "card"])
@pytest.mark.parametrize("name", BESIDE)
def test_a_text_colour_can_be_read_on_page_and_card(colours, ground, name):
    assert contrast(colours[name], colours[ground]) >= LEAST


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", palette.REQUESTS)
def test_text_on_a_block_can_be_read(colours, name):
    assert contrast(colours["on"], colours[name]) >= LEAST


def test_the_contrast_of_known_pairs():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # just too faint


def test_both_modes_name_the_same_colours():
    assert list(palette.LIGHT) == list(palette.DARK)
    assert set(palette.REQUESTS) <= set(palette.LIGHT)


def test_the_style_sheet_gives_each_selector_its_colours():
    light, dark = palette.css(".here", ".here.dark").splitlines()
    assert light.startswith(".here { --tif-ink: #1c2330;")
    assert dark.startswith(".here.dark { --tif-ink: #e7ebf2;")
    assert len(re.findall(r"--tif-\w+: #[0-9a-f]{6};", light)) == len(palette.LIGHT)
