"""Public trace files: moments and lengths of real requests, read row by row into requests."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import NamedTuple, TypeAlias, overload

from lab.request import Request

MICROS_PER_S = 10**6
TICKS_PER_S = 10**7
"""A tick is 100 ns, the grain of the finest format; moments are whole ticks until they are
rounded to microseconds."""
HASHED_BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class HashedTokens(Sequence[tuple[int, int]]):
    """A prompt known by one hash a block: token `i` is `(hash of its block, place in the block)`.

    It behaves like the tuple of these pairs and holds only the hashes; a slice is a real tuple.
    Equal hashes and lengths make equal prompts. The last block may be partly filled.
    """

    hash_ids: tuple[int, ...]
    length: int
    block_tokens: int = HASHED_BLOCK_TOKENS

    def __post_init__(self) -> None:
        if self.block_tokens < 1 or self.length < 0:
            raise ValueError(
                "a hashed prompt needs blocks of at least 1 token and a length of at least 0, "
                f"got {self.block_tokens} and {self.length}"
            )
        blocks = math.ceil(self.length / self.block_tokens)
        if len(self.hash_ids) != blocks:
            raise ValueError(
                f"{self.length} tokens in blocks of {self.block_tokens} need {blocks} hash ids, "
                f"got {len(self.hash_ids)}"
            )

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[int, int], ...]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | tuple[tuple[int, int], ...]:
        if isinstance(index, slice):
            return tuple(self._token(place) for place in range(self.length)[index])
        return self._token(range(self.length)[index])

    def _token(self, place: int) -> tuple[int, int]:
        return self.hash_ids[place // self.block_tokens], place % self.block_tokens

    def block_keys(self, block_tokens: int = HASHED_BLOCK_TOKENS) -> tuple[tuple[int, int], ...]:
        """One key for every full block of `block_tokens`: the pair of its first token.

        A hash covers its block and all blocks before it, so equal keys mean equal beginnings.
        ValueError if `block_tokens` does not divide the trace's own block.
        """
        if block_tokens < 1 or self.block_tokens % block_tokens:
            raise ValueError(
                f"block_tokens must divide the {self.block_tokens} tokens of a hashed block, "
                f"got {block_tokens}"
            )
        full = self.length // block_tokens
        return tuple(self._token(block * block_tokens) for block in range(full))


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that is no request that can be served, with its line in the file and the reason."""

    line: int
    reason: str


class TraceRow(NamedTuple):
    """What one row says: its moment in ticks of 100 ns on the file's own clock, and lengths."""

    ticks: int
    prompt_tokens: int
    output_tokens: int
    hashed: HashedTokens | None = None


_RowReader: TypeAlias = Callable[[str], TraceRow]


def read_requests(
    path: str | PathLike[str],
    *,
    limit: int | None = None,
    speed: float | Fraction = 1,
    on_refused: Callable[[RefusedRow], None] | None = None,
) -> Iterator[Request]:
    """The requests of a public trace file one by one, lazily, in constant memory.

    Three formats are known and recognised by the first line:

    - Azure LLM inference, CSV (Patel et al., Splitwise, ISCA 2024; the files of 2024, of
      Stojkovic et al., DynamoLLM, HPCA 2025, have the same columns);
    - Mooncake, one JSON object a line (Qin et al., Mooncake, FAST 2025), with prompts of
      `HashedTokens`; prompts of the other formats are ranges that share no id;
    - BurstGPT, CSV (Wang et al., BurstGPT).

    Arrivals are seconds since the first row, to the microsecond, divided by `speed`: 2 plays the
    trace twice as fast. `limit` is the number of rows to read. Request `r7` is row 7, counted
    from 0. A row without output tokens is a failure of the recorded service: it makes no request
    and is handed to `on_refused`.

    FileNotFoundError for a missing file. ValueError for an empty file, a foreign header, a file
    without rows, and with the line number for a bad row: one that is short, is not a number, is
    negative, has no prompt, or is earlier than the row above (all formats are in order of time).
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no trace file {str(path)!r} (looked in {Path.cwd()})")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1 row, got {limit}")
    if not (speed > 0 and math.isfinite(speed)):
        raise ValueError(f"speed must be a finite number above 0, got {speed}")
    return _requests(_rows(path, limit), speed, on_refused)


def _requests(
    rows: Iterator[tuple[int, TraceRow]],
    speed: float | Fraction,
    on_refused: Callable[[RefusedRow], None] | None,
) -> Iterator[Request]:
    first_ticks = None
    next_id = 0
    for number, (line, row) in enumerate(rows):
        if first_ticks is None:
            first_ticks = row.ticks
        if row.output_tokens == 0:
            if on_refused is not None:
                on_refused(RefusedRow(line, "no output tokens"))
            continue
        own_ids = range(next_id, next_id + row.prompt_tokens)
        next_id = own_ids.stop
        yield Request(
            id=f"r{number}",
            prompt=own_ids if row.hashed is None else row.hashed,
            max_tokens=row.output_tokens,
            arrival=_micros(row.ticks - first_ticks, speed) / MICROS_PER_S,
        )


def _rows(path: Path, limit: int | None) -> Iterator[tuple[int, TraceRow]]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        lines = ((number, text) for number, line in enumerate(file, 1) if (text := line.strip()))
        first = next(lines, None)
        if first is None:
            raise ValueError(f"trace file {path.name!r} is empty")
        is_table = not first[1].startswith("{")
        read = _table_reader(path, first[1]) if is_table else _mooncake_row
        rows = lines if is_table else chain([first], lines)
        last_ticks = None
        for number, text in islice(rows, limit):
            try:
                row = read(text)
                _check_row(row, last_ticks)
            except ValueError as error:
                raise ValueError(f"{path.name}, line {number}: {error}") from None
            last_ticks = row.ticks
            yield number, row
        if last_ticks is None:
            raise ValueError(f"trace file {path.name!r} has a header and no rows")


def _check_row(row: TraceRow, last_ticks: int | None) -> None:
    if last_ticks is not None and row.ticks < last_ticks:
        back_s = (last_ticks - row.ticks) / TICKS_PER_S
        raise ValueError(
            f"rows must be in order of time, this one is {back_s} s before the one above"
        )
    if row.prompt_tokens == 0 and row.output_tokens > 0:
        raise ValueError("a prompt must hold at least 1 token, got 0")


def _micros(ticks: int, speed: float | Fraction) -> int:
    """Whole microseconds nearest to `ticks`, on a clock that runs `speed` times as fast."""
    return round(ticks * MICROS_PER_S / (TICKS_PER_S * speed))


def _mooncake_row(text: str) -> TraceRow:
    try:
        fields = json.loads(text)
    except ValueError:
        raise ValueError(f"a JSON object was expected, got {_short(text)}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"a JSON object was expected, got {_short(text)}")
    missing = [key for key in _MOONCAKE_KEYS if key not in fields]
    if missing:
        raise ValueError(
            f"the row needs {', '.join(_MOONCAKE_KEYS)}; missing: {', '.join(missing)}"
        )
    prompt_tokens, hash_ids = _count("input_length", fields["input_length"]), fields["hash_ids"]
    if not isinstance(hash_ids, list) or not all(type(key) is int for key in hash_ids):
        raise ValueError(f"hash_ids must be a list of whole numbers, got {_short(hash_ids)}")
    return TraceRow(
        ticks=_count("timestamp", fields["timestamp"]) * (TICKS_PER_S // 1000),
        prompt_tokens=prompt_tokens,
        output_tokens=_count("output_length", fields["output_length"]),
        hashed=HashedTokens(tuple(hash_ids), prompt_tokens),
    )


_MOONCAKE_KEYS = ("timestamp", "input_length", "output_length", "hash_ids")


def _count(name: str, value: object) -> int:
    if type(value) is int and value >= 0:
        return value
    raise ValueError(f"{name} must be a whole number of at least 0, got {_short(value)}")


def _digits(name: str, text: str) -> int:
    if text.isdecimal() and text.isascii():
        return int(text)
    raise ValueError(f"{name} must be a whole number of at least 0, got {_short(text)}")


_DATE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,7}))?(?:\+00:00)?", re.ASCII)
_SECONDS = re.compile(r"(\d+)(?:\.(\d+))?", re.ASCII)
_START_OF_CALENDAR = datetime.min


def _date_ticks(name: str, text: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{name} must look like 2023-11-16 18:15:46.6805900, got {_short(text)}")
    try:
        moment = datetime.fromisoformat(match[1])
    except ValueError as error:
        raise ValueError(f"{name} is no date, {error}, got {_short(text)}") from None
    seconds = (moment - _START_OF_CALENDAR) // timedelta(seconds=1)
    return seconds * TICKS_PER_S + _fraction_ticks(match[2])


def _second_ticks(name: str, text: str) -> int:
    match = _SECONDS.fullmatch(text)
    if match is None:
        raise ValueError(f"{name} must be a number of seconds of at least 0, got {_short(text)}")
    return int(match[1]) * TICKS_PER_S + _fraction_ticks(match[2])


def _fraction_ticks(digits: str | None) -> int:
    return int(digits[:7].ljust(7, "0")) if digits else 0


class _Table(NamedTuple):
    """A CSV format: the columns that are read, and how its moments are written."""

    name: str
    moment: str
    prompt: str
    output: str
    ticks: Callable[[str, str], int]


_TABLES = (
    _Table("Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", _date_ticks),
    _Table("BurstGPT", "Timestamp", "Request tokens", "Response tokens", _second_ticks),
)


def _table_reader(path: Path, first_line: str) -> _RowReader:
    header = [column.strip() for column in first_line.split(",")]
    for table in _TABLES:
        if {table.moment, table.prompt, table.output} <= set(header):
            places = tuple(map(header.index, (table.moment, table.prompt, table.output)))
            return partial(_table_row, table, len(header), places)
    known = "; ".join(
        f"{table.name} (CSV with the columns {table.moment}, {table.prompt}, {table.output})"
        for table in _TABLES
    )
    raise ValueError(
        f"trace file {path.name!r} begins with {_short(first_line)}, which is no known format. "
        f"Known: {known}; Mooncake (JSON lines with {', '.join(_MOONCAKE_KEYS)})"
    )


def _table_row(table: _Table, columns: int, places: tuple[int, ...], text: str) -> TraceRow:
    cells = text.split(",")
    if len(cells) != columns:
        raise ValueError(f"the header has {columns} columns, this row has {len(cells)}")
    moment, prompt, output = places
    return TraceRow(
        ticks=table.ticks(table.moment, cells[moment]),
        prompt_tokens=_digits(table.prompt, cells[prompt]),
        output_tokens=_digits(table.output, cells[output]),
    )


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
