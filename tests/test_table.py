"""Tables: the same rows as text, as HTML and as mappings."""

from fractions import Fraction
from typing import Any

import pytest

from lab.ledgers.table import Table, compare, show

MIXED = Table(
    ("request", "TPOT", "share"),
    (("A", 50, Fraction(1, 3)), ("long name", None, Fraction(1))),
    "times in ms",
    ("a note",),
)


def test_numbers_stand_right_and_words_left() -> None:
    assert repr(MIXED).splitlines() == [
        "times in ms",
        "request    TPOT  share",
        "---------  ----  -----",
        "A            50    1/3",
        "long name     –      1",
        "a note",
    ]


def test_long_numbers_stand_in_groups_of_three_digits_and_words_as_they_are() -> None:
    table = Table(("bytes", "id"), ((9970688, "12000"), (-54029.3, "9"), (9999, "x")))
    assert repr(table).splitlines()[2:] == ["9,970,688  12000", "  -54,029  9", "     9999  x"]
    assert "<td>9,970,688</td><td>12000</td>" in table._repr_html_()


def test_no_line_ends_in_blanks() -> None:
    table = Table(("n", "status"), ((1, "ok"), (2, "cancelled")))
    assert [line for line in repr(table).splitlines() if line != line.rstrip()] == []


def test_a_table_without_caption_and_notes_begins_with_its_columns() -> None:
    assert repr(Table(("n",), ((1,),))) == "n\n-\n1"


def test_a_table_without_rows_still_shows_its_columns() -> None:
    assert repr(Table(("n", "mean"), ())) == "n  mean\n-  ----"


def test_rows_are_read_by_the_names_of_their_columns() -> None:
    assert next(iter(MIXED)) == {"request": "A", "TPOT": 50, "share": Fraction(1, 3)}
    assert [row["TPOT"] for row in MIXED] == [50, None]
    assert len(MIXED) == 2


def test_html_has_the_cells_and_says_missing_as_a_dash() -> None:
    assert MIXED._repr_html_() == (
        '<div class="ledger"><table><caption>times in ms</caption><thead><tr>'
        '<th scope="col">request</th><th scope="col">TPOT</th><th scope="col">share</th>'
        '</tr></thead><tbody><tr><th scope="row">A</th><td>50</td><td>1/3</td></tr>'
        '<tr><th scope="row">long name</th><td>–</td><td>1</td></tr></tbody></table>'
        "<p>a note</p></div>"
    )


def test_html_without_caption_and_notes_has_neither() -> None:
    html = Table(("n",), ((1,),))._repr_html_()
    assert "caption" not in html
    assert "<p>" not in html


def test_html_escapes_whatever_a_user_may_have_named() -> None:
    evil = '<script>"&'
    html = Table((evil,), ((evil,),), evil, (evil,))._repr_html_()
    assert "<script>" not in html
    assert html.count("&lt;script&gt;&quot;&amp;") == 4


def test_a_row_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        repr(Table(("a", "b"), ((1,),)))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (0.0, "0"),
        (40, "40"),
        (1234567, "1234567"),
        (-3, "-3"),
        (True, "yes"),
        (False, "no"),
        (Fraction(1, 3), "1/3"),
        (Fraction(-80, 3), "-80/3"),
        (Fraction(30), "30"),
        (Fraction(1, 1000), "1/1000"),
        (Fraction(1, 1001), "0.000999"),
        (Fraction(1, 9000), "0.0001111"),
        (0.0123456, "0.01235"),
        (16.6666, "16.67"),
        (9999.4, "9999"),
        (9999.6, "10000"),
        (-9999.6, "-10000"),
        (123456.7, "123457"),
        (1e-9, "1e-09"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ((1, None, Fraction(1, 2)), "1, –, 1/2"),
        ([40, 40], "40, 40"),
        ((), ""),
        ("words", "words"),
    ],
)
def test_a_value_is_shown_as_a_reader_expects_it(value: Any, shown: str) -> None:
    assert show(value) == shown


def test_a_comparison_puts_the_rows_of_all_below_one_another():
    one = Table(("steps", "idle"), ((6, 4),), "seats", ("a note",))
    other = Table(("steps", "idle"), ((4, 0),))
    both = compare({"static": one, "continuous": other}, "rule")
    assert both.columns == ("rule", "steps", "idle")
    assert both.rows == (("static", 6, 4), ("continuous", 4, 0))
    assert (both.caption, both.notes) == ("seats", ("a note",))


def test_a_table_can_do_without_columns() -> None:
    table = Table(("a", "b", "c"), ((1, 0, 3), (4, 0, 6)), "numbers", ("so it is",))
    assert table.without("b") == Table(("a", "c"), ((1, 3), (4, 6)), "numbers", ("so it is",))
    with pytest.raises(ValueError, match="the columns are a, b, c; got 'd'"):
        table.without("b", "d")


def test_only_equal_columns_are_compared():
    one, other = Table(("steps",), ((6,),)), Table(("idle",), ((4,),))
    with pytest.raises(ValueError, match="'b' has idle, and the first has steps"):
        compare({"a": one, "b": other})
    with pytest.raises(ValueError, match="at least 1 account, got 0"):
        compare({})
