"""Workloads: named lists of requests, from a table, drawn with a seed, or read from a file."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from lab.draws import MICROS_PER_S, Arrivals, Lengths, PrefixedTokens, draw_length
from lab.request import Request, Time
from lab.trace_files import RefusedRow, read_requests

UNITS = (None, "us", "ms", "s", "step")

GivenRow: TypeAlias = Sequence[Time] | Mapping[str, object]
"""A row of a table: (arrival, prompt tokens, output tokens), or a mapping with names."""


@dataclass(frozen=True, slots=True, repr=False)
class Workload:
    """Requests in order of arrival; those that arrive together keep the order they came in.

    `unit` is the unit of every moment in it: "us", "ms", "s", "step", or None where the reader of
    the table decides. `seed` is the one it was drawn with, `refused` are the rows of its file that
    are no requests. ValueError for no requests, two with one id, or a moment that is no number.
    """

    requests: tuple[Request, ...]
    unit: str | None = None
    name: str = ""
    seed: int | None = None
    refused: tuple[RefusedRow, ...] = ()

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit must be one of {UNITS}, got {self.unit!r}")
        if not self.requests:
            raise ValueError(f"a workload must hold at least 1 request, got 0{self._refusals()}")
        _check_ids(self.requests)
        for request in self.requests:
            _check_moments(request)
        in_order = tuple(sorted(self.requests, key=lambda request: request.arrival))
        object.__setattr__(self, "requests", in_order)  # before anybody has seen the value

    @classmethod
    def given(
        cls, rows: Mapping[str, GivenRow], unit: str | None = None, name: str = ""
    ) -> Workload:
        """The workload of a table: `{"A": (0, 4, 3)}` is arrival 0, 4 prompt and 3 output tokens.

        A row may be a mapping with the keys arrival (0 if left out), prompt, output, priority,
        deadline, cancel_at, n, tenant and adapter; its prompt is a number of tokens or a tuple of
        token ids. Prompts given as numbers share no id with any other. Times keep their type.
        ValueError names the row and the rule.
        """
        named = {row_id: _named_cells(row_id, row) for row_id, row in rows.items()}
        next_id = 1 + max((_highest_id(cells) for cells in named.values()), default=-1)
        requests = []
        for row_id, cells in named.items():
            prompt = cells["prompt"]
            if isinstance(prompt, int):
                prompt = range(next_id, next_id + prompt)
                next_id = prompt.stop
            requests.append(_request(row_id, cells, prompt))
        return cls(tuple(requests), unit=unit, name=name)

    @classmethod
    def drawn(
        cls,
        count: int,
        arrivals: Arrivals,
        *,
        prompt: Lengths,
        output: Lengths,
        seed: int,
        shared_prefix: int = 0,
        name: str = "",
    ) -> Workload:
        """`count` random requests in seconds: `drawn(9, Poisson(2), prompt=Fixed(512), ...)`.

        The same seed gives the same workload on every machine. Arrivals, prompts and outputs have
        generators of their own: another rate leaves the lengths as they are, and the first
        requests of a longer workload are those of a shorter one.

        `shared_prefix` tokens with the same ids stand before every prompt and come on top of its
        drawn length. All other ids belong to one request only.
        """
        if count < 1 or shared_prefix < 0:
            raise ValueError(
                "count must be at least 1 request and shared_prefix at least 0 tokens, "
                f"got {count} and {shared_prefix}"
            )
        _check_drawable(arrivals, prompt, output)
        moments = arrivals.micros(_dice(seed, "arrivals"))
        prompt_dice, output_dice = _dice(seed, "prompt"), _dice(seed, "output")
        next_id = shared_prefix
        requests = []
        for number, micros in enumerate(islice(moments, count)):
            own = range(next_id, next_id + draw_length(prompt, prompt_dice))
            next_id = own.stop
            requests.append(
                Request(
                    id=f"r{number}",
                    prompt=PrefixedTokens(shared_prefix, own) if shared_prefix else own,
                    max_tokens=draw_length(output, output_dice),
                    arrival=micros / MICROS_PER_S,
                )
            )
        return cls(tuple(requests), unit="s", name=name, seed=seed)

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        *,
        limit: int | None = None,
        speed: float | Fraction = 1,
    ) -> Workload:
        """The requests of a public trace file in seconds; `read_requests` says what it reads.

        Rows that are no requests (failures of the recorded service) are in `refused`.
        """
        refused: list[RefusedRow] = []
        requests = tuple(read_requests(path, limit=limit, speed=speed, on_refused=refused.append))
        return cls(requests, unit="s", name=Path(path).name, refused=tuple(refused))

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all requests."""
        return sum(request.prompt_tokens for request in self.requests)

    @property
    def output_tokens(self) -> int:
        """Output tokens of all answers, each at its limit."""
        return sum(request.max_tokens * request.n for request in self.requests)

    @property
    def span(self) -> Time:
        """Time from the first arrival to the last."""
        return self.requests[-1].arrival - self.requests[0].arrival

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)

    def __len__(self) -> int:
        return len(self.requests)

    def __repr__(self) -> str:
        name = f"{self.name!r}: " if self.name else ""
        unit = f" {self.unit}" if self.unit else ""
        first, last = self.requests[0].arrival, self.requests[-1].arrival
        return (
            f"Workload({name}{_counted(len(self), 'request')}, "
            f"{_counted(self.prompt_tokens, 'prompt token')}, "
            f"{_counted(self.output_tokens, 'output token')}, "
            f"arrivals {first} to {last}{unit}{self._refusals()})"
        )

    def _refusals(self) -> str:
        return f", {_counted(len(self.refused), 'row')} refused" if self.refused else ""


_COLUMNS = ("arrival", "prompt", "output")
_KEYS = (*_COLUMNS, "priority", "deadline", "cancel_at", "n", "tenant", "adapter")


def _named_cells(row_id: str, row: GivenRow) -> dict[str, Any]:
    """The cells of a row by name, each of the right kind."""
    if isinstance(row, Mapping):
        cells = {"arrival": 0, **row}
    elif isinstance(row, tuple | list) and len(row) == len(_COLUMNS):
        cells = dict(zip(_COLUMNS, row, strict=True))
    else:
        raise ValueError(
            f"row {row_id!r}: a row is (arrival, prompt tokens, output tokens) "
            f"or a mapping, got {row!r}"
        )
    if unknown := [key for key in cells if key not in _KEYS]:
        raise ValueError(f"row {row_id!r}: the keys are {', '.join(_KEYS)}; got {unknown}")
    if missing := [key for key in _COLUMNS if key not in cells]:
        raise ValueError(f"row {row_id!r}: {' and '.join(missing)} must be given")
    _check_cells(row_id, cells)
    return cells


def _check_cells(row_id: str, cells: Mapping[str, Any]) -> None:
    for key in ("arrival", "deadline", "cancel_at"):
        moment = cells.get(key)
        if not (_is_time(moment) or (moment is None and key != "arrival")):
            raise ValueError(f"row {row_id!r}: {key} must be a finite number, got {moment!r}")
    if type(cells["output"]) is not int or cells["output"] < 1:
        raise ValueError(
            f"row {row_id!r}: output must be a whole number of at least 1 token, "
            f"got {cells['output']!r}"
        )
    for key in ("priority", "n"):
        if type(cells.get(key, 0)) is not int:
            raise ValueError(f"row {row_id!r}: {key} must be a whole number, got {cells[key]!r}")
    if not _is_prompt(cells["prompt"]):
        raise ValueError(
            f"row {row_id!r}: prompt must be a whole number of at least 1 token, or a tuple of "
            f"at least 1 token id (whole numbers of at least 0), got {cells['prompt']!r}"
        )


def _is_prompt(prompt: object) -> bool:
    if type(prompt) is int:
        return prompt >= 1
    return (
        isinstance(prompt, tuple | list | range)
        and len(prompt) >= 1
        and all(type(token) is int and token >= 0 for token in prompt)
    )


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float | Fraction)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def _highest_id(cells: Mapping[str, Any]) -> int:
    prompt = cells["prompt"]
    return -1 if isinstance(prompt, int) else max(prompt)


def _request(row_id: str, cells: Mapping[str, Any], prompt: Sequence[int]) -> Request:
    return Request(
        id=row_id,
        prompt=prompt if isinstance(prompt, range) else tuple(prompt),
        max_tokens=cells["output"],
        arrival=cells["arrival"],
        priority=cells.get("priority", 0),
        deadline=cells.get("deadline"),
        cancel_at=cells.get("cancel_at"),
        n=cells.get("n", 1),
        tenant=cells.get("tenant", ""),
        adapter=cells.get("adapter", ""),
    )


def _check_ids(requests: Sequence[Request]) -> None:
    seen = set()
    for request in requests:
        if request.id in seen:
            raise ValueError(f"two requests have the id {request.id!r}; ids must differ")
        seen.add(request.id)


def _check_moments(request: Request) -> None:
    for name, moment in (
        ("arrival", request.arrival),
        ("deadline", request.deadline),
        ("cancel_at", request.cancel_at),
    ):
        if moment is not None and not math.isfinite(moment):
            raise ValueError(
                f"request {request.id!r}: {name} must be a finite number, got {moment}"
            )


def _check_drawable(arrivals: object, prompt: object, output: object) -> None:
    if not isinstance(arrivals, Arrivals):
        raise ValueError(f"arrivals must be a process such as Poisson(rate=2), got {arrivals!r}")
    for name, lengths in (("prompt", prompt), ("output", output)):
        if not isinstance(lengths, Lengths):
            raise ValueError(f"{name} must be lengths such as Fixed(512), got {lengths!r}")


def _dice(seed: int, purpose: str) -> random.Random:
    """A generator of its own for each purpose, so that no draw moves the draws of another."""
    return random.Random(f"{purpose} {seed}")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
