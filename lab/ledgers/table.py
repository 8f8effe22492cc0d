"""A small table of results: read by people as text or HTML, and by programs as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

MISSING = "–"
LONG = 24
"""Letters from which on the words of a cell may be broken on a page."""


GROUPED = 10_000
"""From here on the digits of a cell stand in groups."""


@dataclass(frozen=True, slots=True)
class Table:
    """`columns` name what stands in each of `rows`; `caption` says what the table is about and
    `notes` what a reader has to know to read it right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, as mappings from column to value."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        cells = [self.columns, *(tuple(map(_shown, row)) for row in self.rows)]
        widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
        left = [self._is_words(index) for index in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if words else cell.rjust(width)
                for cell, width, words in zip(row, widths, left, strict=True)
            ).rstrip()
            for row in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*([self.caption] if self.caption else []), *lines, *self.notes])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(column)}</th>' for column in self.columns)
        body = "".join(f"<tr>{''.join(self._cells(row))}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f'<div class="ledger"><table>{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{notes}</div>"
        )

    def without(self, *columns: str) -> Table:
        """The table without some of its columns, such as those that are 0 throughout.

        ValueError for a column that it does not have.
        """
        for name in columns:
            if name not in self.columns:
                raise ValueError(f"the columns are {', '.join(self.columns)}; got {name!r}")
        kept = [place for place, name in enumerate(self.columns) if name not in columns]
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        names = tuple(self.columns[place] for place in kept)
        return Table(names, rows, self.caption, self.notes)

    def _cells(self, row: tuple[Any, ...]) -> Iterator[str]:
        """The cells of a row as HTML; words in its first column are its head."""
        for index, value in enumerate(row):
            head = index == 0 and isinstance(value, str)
            text = escape(_shown(value))
            words = ' class="words"' if len(text) > LONG else ""
            yield f'<th scope="row">{text}</th>' if head else f"<td{words}>{text}</td>"

    def _is_words(self, index: int) -> bool:
        return any(isinstance(row[index], str) for row in self.rows)


class Shown:
    """An account that is shown as its table, in text and on a page."""

    __slots__ = ()

    def table(self) -> Table:
        """The account in rows and columns."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def compare(accounts: Mapping[str, Shown | Table], title: str = "") -> Table:
    """Several accounts of the same columns as one table, with what each is about in front.

    `compare({"static": lab.occupancy(one), "continuous": lab.occupancy(other)}, "rule")`. Caption
    and notes are those of the first account. Raises ValueError for none, or for other columns.
    """
    tables = {
        name: account if isinstance(account, Table) else account.table()
        for name, account in accounts.items()
    }
    if not tables:
        raise ValueError("a comparison needs at least 1 account, got 0")
    first = next(iter(tables.values()))
    for name, table in tables.items():
        if table.columns != first.columns:
            raise ValueError(
                f"accounts can be compared only column by column: {name!r} has "
                f"{', '.join(table.columns)}, and the first has {', '.join(first.columns)}"
            )
    rows = tuple((name, *row) for name, table in tables.items() for row in table.rows)
    return Table((title, *first.columns), rows, first.caption, first.notes)


def show(value: Any) -> str:
    """A value as a reader expects it: 40, 1/3, 0.01235, – for what does not exist."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Fraction) and value.denominator > 1000:
        value = float(value)
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 9999.5 else f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(show(part) for part in value)
    return str(value)


def _shown(value: Any) -> str:
    """As `show`; a number of five digits or more is read in groups of three."""
    text = show(value)
    if isinstance(value, str) or not text.lstrip("-").isdigit():
        return text
    return f"{int(text):,}" if abs(int(text)) >= GROUPED else text
