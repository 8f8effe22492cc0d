"""The bank of self-checks, by chapter."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from lab.exercises import Exercise, variant
from lab.questions import (
    attention,
    attention_cost,
    batching,
    computed,
    memory,
    one_request,
    paging,
    parallel,
    parallel_cost,
    prefix,
    prefix_cache,
    rates,
    reading,
    speculation,
    speculation_rounds,
    timetables,
    waiting,
)

BANK: dict[int, tuple[Exercise, ...]] = {
    0: (reading.SIDE_BY_SIDE, reading.BREAK_EVEN),
    1: (
        one_request.WARM_UP,
        one_request.HALVE_THE_STEPS,
        computed.LONGER_PROMPT,
        one_request.FIRST_TOKEN,
        one_request.PER_TOKEN,
        one_request.ONE_TOKEN,
        one_request.WHICH_METRIC_SEES,
        waiting.DIAGNOSIS,
        one_request.MOMENTS,
        waiting.WHOLE_TASK,
        waiting.MEAN_AND_TAIL,
        waiting.WORK_MOVED,
    ),
    2: (
        batching.WARM_UP,
        timetables.WHOSE_ANSWER_IS_LATER,
        timetables.REQUEST_TIMES,
        rates.FIXED_WINDOW,
        rates.DRAIN_RATIO,
        rates.PRICE_OF_A_THOUSAND,
        rates.RESERVED_HOUR,
        batching.IDLE_SEATS,
        batching.WHO_SITS_WHERE,
        batching.DRAW_SEATS,
        batching.SEAT_CHANGES_HANDS,
        batching.WHAT_CHANGES,
        timetables.FIRST_TOKEN,
        timetables.WRONG_LINE,
        batching.ONE_GO,
        computed.COMPUTED_AGAIN,
    ),
    5: (
        memory.WARM_UP,
        memory.HEAVIEST,
        memory.CALCULATOR,
        memory.WRONG_LINE,
        memory.WITH_SCALES,
        paging.SHARED_BLOCKS,
        memory.BYTES_A_TOKEN,
        memory.LIGHTEST_FIRST,
        memory.SEQUENCES_FIT,
        paging.LAST_BLOCKS,
        paging.WITH_PAGES,
    ),
    6: (
        prefix.WARM_UP,
        prefix.ONE_WORD_CHANGES,
        prefix.SHARED_POSITIONS,
        prefix.BLOCKS_REUSED,
        prefix.WORD_ORDER,
        prefix.MISSING_FIELD,
        prefix_cache.AVAILABLE,
        prefix_cache.EVICTION,
        prefix_cache.HIT_RATE,
        prefix_cache.ISOLATION,
    ),
    8: (
        attention.WARM_UP,
        attention.WHAT_TO_KEEP,
        attention.MERGE_TWO,
        attention.RESCALE_KEPT,
        attention.STEP_TABLE,
        attention.WRONG_LINE,
        attention_cost.TILES_READ,
        attention_cost.MATRIX_BYTES,
        attention_cost.LONGER,
        attention_cost.MEMORY_DOWN,
    ),
    10: (
        speculation.WARM_UP,
        speculation.DRAW_AGAIN,
        speculation.ACCOUNT,
        speculation.RESIDUAL,
        speculation.BROKEN,
        speculation_rounds.TOKENS_OF_RUN,
        speculation_rounds.GREEDY,
        speculation_rounds.BEST,
        speculation_rounds.SAME_TEXT,
    ),
    11: (
        parallel_cost.ONE_MESSAGE,
        parallel.FITS_AND_BUSY,
        parallel.PARTIAL_SUMS,
        parallel.KV_COPIES,
        parallel_cost.BYTES_SENT,
        parallel_cost.SLOWER,
        parallel_cost.BUBBLE,
        parallel_cost.ROUND_TRIP,
        parallel.ZERO_LEAVES,
    ),
}
"""The exercises of each chapter in the order in which it asks them, which gives their numbers."""


def exercises(chapter_or_id: str | None = None) -> tuple[Exercise, ...]:
    """All exercises, those of a chapter ("2"), or the one with an id.

    ValueError for a chapter without exercises, and for an unknown id with the nearest ones.
    """
    known = {exercise.id: exercise for chapter in BANK.values() for exercise in chapter}
    if chapter_or_id is None:
        return tuple(known.values())
    if chapter_or_id.isdecimal():
        if found := BANK.get(int(chapter_or_id)):
            return found
        chapters = ", ".join(map(str, BANK))
        raise ValueError(f"chapter {chapter_or_id} has no exercises; those that do: {chapters}")
    if chapter_or_id not in known:
        near = get_close_matches(chapter_or_id, known, n=3, cutoff=0.5)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise ValueError(f"unknown exercise {chapter_or_id!r} among {len(known)}{hint}")
    return (known[chapter_or_id],)


def number_in_book(exercise: Exercise) -> str:
    """Its chapter and place there, such as "2.3"; nothing for one that is not in the bank."""
    asked = BANK.get(exercise.chapter, ())
    return f"{exercise.chapter}.{asked.index(exercise) + 1}" if exercise in asked else ""


def more(id: str, number: int) -> dict[str, Any]:
    """A variant of an exercise as plain values: what a page asks for beyond those it carries."""
    (exercise,) = exercises(id)
    return variant(exercise, number).to_json()
