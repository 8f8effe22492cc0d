"""What a test runs elsewhere: the browser of other tests keeps an event loop in its thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_own_thread(function: Callable[P, R], *args: P.args, **more: P.kwargs) -> R:
    """What `function` returns or raises, in a thread in which no event loop runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args, **more).result()
