"""Bytes of a number are exact, and a group's scales count."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from lab.ledgers.precision import known_precisions, precision


def test_bytes_of_a_number_with_what_its_group_shares() -> None:
    assert {name: precision(name).bytes_per_element for name in known_precisions()} == {
        "fp32": 4,
        "fp16": 2,
        "fp8": 1,
        "int8": 1 + Fraction(4, 64),
        "int4": Fraction(1, 2) + Fraction(4, 32),
    }


def test_a_group_of_numbers_takes_its_codes_and_one_of_each() -> None:
    form = precision("int4")
    assert form.group
    assert form.bytes_per_element * form.group == 16 + 2 + 2
    assert dict(form.parts) == {
        "numbers": Fraction(1, 2),
        "scales": Fraction(1, 16),
        "zero points": Fraction(1, 16),
    }


def test_without_a_group_there_are_only_the_numbers() -> None:
    assert precision("fp16").parts == (("numbers", Fraction(2)),)


def test_smaller_groups_cost_more() -> None:
    form = precision("int4")
    widths = [replace(form, group=group).bytes_per_element for group in (8, 16, 32, 64, 128)]
    assert widths == sorted(widths, reverse=True)
    assert replace(form, group=8).bytes_per_element == precision("fp8").bytes_per_element


def test_names_ignore_case_and_have_a_source() -> None:
    assert precision("INT4") is precision("int4")
    assert all(precision(name).source for name in known_precisions())
    with pytest.raises(ValueError, match="unknown precision 'int5'; known: fp32, fp16"):
        precision("int5")


def test_impossible_formats_are_refused() -> None:
    form = precision("int4")
    with pytest.raises(ValueError, match="bits must be at least 1, got 0"):
        replace(form, bits=0)
    with pytest.raises(ValueError, match="group must be at least 1, got 0"):
        replace(form, group=0)
    with pytest.raises(ValueError, match=r"scale_bytes .* 0 without a group, got 2"):
        replace(form, group=None)
    with pytest.raises(ValueError, match=r"zero_point_bytes must be .* got -1"):
        replace(form, zero_point_bytes=-1)
