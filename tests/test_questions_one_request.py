"""The questions on one request, computed again from their words, without an engine."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import accumulate, pairwise

from asked import knows, numbers, right_options, variants_of, worked_end, wrong_numbers

from lab.exercises import bake, variant
from lab.questions import exercises
from lab.questions.one_request import DATABASE, SOURCE, first_token, per_token, warm_up
from lab.worked_numbers import entry, worked


def stages(asked):
    """Queue, reading, step, tokens, and whether the first token has a step of its own."""
    text = asked.question.text
    queue, prefill = numbers(r"waits (\d+) ms in the queue.*?One step of (\d+) ms", text)
    (step,) = numbers(r"takes a step of (\d+) ms", text)
    (tokens,) = numbers(r"of the (\d+) tokens of the answer", text)
    own_step, none = "the first one too" in text, "makes the first of" in text
    assert own_step != none  # the text says which of the two it is
    return queue, prefill, step, tokens, own_step


def token_times(queue, prefill, step, tokens, own_step):
    """When the tokens come, on a clock that goes from one duration to the next."""
    before = [queue, prefill, step] if own_step else [queue, prefill]
    return list(accumulate([sum(before), *[step] * int(tokens - 1)]))


def metrics(times, database):
    """TTFT, TPOT, E2E and task time of a request that arrives at 0."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return {
        "TTFT": times[0],
        "TPOT": Fraction(sum(gaps), len(gaps)),
        "E2E": times[-1],
        "task time": times[-1] + database,
    }


def first(id):
    return variant(*exercises(id), 0)


@variants_of("request-warm-up")
def test_an_answer_has_a_gap_less_than_tokens(asked):
    times = re.search(r"at ([\d, and]+) ms\.", asked.question.text)[1]
    times = list(map(int, re.findall(r"\d+", times)))
    (count,) = numbers(r"in (\d+) tokens", asked.question.text)
    assert len(times) == count
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert asked.question.answer.value == len(gaps)
    assert knows(
        asked.question.answer,
        {
            "a gap for every token": count,
            "counting the ends of the answer": count + 1,
            "taking the length of a gap": gaps[0],
        },
    )


@variants_of("request-halve-the-steps")
def test_half_of_the_token_steps_goes_and_little_of_the_task(asked):
    text = asked.question.text
    queue, prefill, tokens, step, made, database, whole = numbers(
        r"waits (\d+) ms in the queue.*read in (\d+) ms, and (\d+) steps of (\d+) ms each make the "
        r"(\d+) tokens.*waits (\d+) ms for a database. That is (\d+) ms in all",
        text,
    )
    assert made == tokens
    times = token_times(queue, prefill, step, tokens, True)
    faster = token_times(queue, prefill, step / 2, tokens, True)
    assert times[-1] + database == whole
    saved = times[-1] - faster[-1]
    choice = asked.question.answer.by
    assert right_options(choice) == {f"about {float(saved / whole):.0%}".replace("%", " %")}
    shares = {float(saved / part) for part in (whole, times[-1], tokens * step)}
    assert {o.text for o in choice.options} == {f"about {100 * part:.0f} %" for part in shares}
    why = asked.question.answer.why
    assert f"{saved} ms, about" in why
    assert ("exactly as much" in why) == (saved == queue)
    assert f"{queue} ms." in why


def test_the_halved_steps_of_the_source_save_what_its_queue_costs():
    asked = first("request-halve-the-steps")
    assert right_options(asked.question.answer.by) == {"about 4 %"}
    assert "exactly as much, 40 ms" in asked.question.answer.why
    given = entry("latency-timeline-row-4-tool").inputs
    assert given["tool"] == DATABASE
    worked("latency-single-generation-equation", given["generation"])
    queue, prefill, step, tokens, _ = SOURCE
    assert token_times(queue, prefill, step, tokens, True)[-1] == given["generation"]
    assert f"{given['generation'] + DATABASE} ms in all" in asked.question.text


@variants_of("request-first-token")
def test_the_first_token_comes_from_the_step_that_the_text_names(asked):
    queue, prefill, step, tokens, own_step = stages(asked)
    times = token_times(queue, prefill, step, tokens, own_step)
    other = token_times(queue, prefill, step, tokens, not own_step)
    answer = asked.question.answer
    assert answer.value == times[0]
    turn = (
        "leaving out the step of the first token"
        if own_step
        else "counting a step of its own for the first token"
    )
    assert knows(
        answer,
        {
            turn: other[0],
            "leaving out the queue": times[0] - queue,
            "waiting for the last token": times[-1],
        },
    )
    assert turn in wrong_numbers(answer)


def test_both_ways_to_the_first_token_are_asked():
    assert {stages(one)[-1] for one in bake(*exercises("request-first-token"))} == {True, False}


def test_of_the_sources_timeline_the_first_token_is_the_sources():
    worked("latency-timeline-row-1-ttft", first_token(SOURCE).answer.value)
    fused = first_token(SOURCE._replace(own_step=False)).answer
    wrong = {one.method: one.value for one in fused.wrong}
    assert (
        fused.value
        == entry("latency-first-token-variant-numbers").expected["ttft_if_from_prefill"].value
    )
    assert wrong["counting a step of its own for the first token"] == 120
    assert wrong["waiting for the last token"] == 160


@variants_of("request-per-token")
def test_the_tpot_is_the_mean_gap(asked):
    arrival, tokens, begin, end = numbers(
        r"arrives at (\d+) ms\. The first of its (\d+) tokens comes at (\d+) ms and the last at "
        r"(\d+) ms",
        asked.question.text,
    )
    answer = asked.question.answer
    assert begin + answer.value * (tokens - 1) == end
    wrong = wrong_numbers(answer)
    assert knows(
        answer,
        {
            "dividing by the tokens": (end - begin) / tokens,
            "dividing the whole answer by its tokens": (end - arrival) / tokens,
            "beginning at the arrival": (end - arrival) / (tokens - 1),
            "not dividing": end - begin,
            "taking the time to first token": begin - arrival,
        },
    )
    assert {"dividing by the tokens", "dividing the whole answer by its tokens"} <= set(wrong)


def test_of_the_sources_timeline_the_tpot_is_the_sources():
    answer = per_token(SOURCE.run()).answer
    worked("latency-tpot-formula-002", answer.value)
    wrong = wrong_numbers(answer)
    other = entry("latency-tpot-other-denominator").wrong["with_N_o"].value
    assert wrong["dividing by the tokens"] == other
    mixed = entry("latency-timeline-row-3-tpot").wrong["total_over_outputs"].value
    assert wrong["dividing the whole answer by its tokens"] == mixed


@variants_of("request-one-token")
def test_one_token_has_no_tpot_and_every_number_is_wrong(asked):
    durations = numbers(
        r"waits (\d+) ms in.*One step of (\d+) ms.*one more step, of (\d+) ms, makes the only",
        asked.question.text,
    )
    choice = asked.question.answer
    assert right_options(choice) == {"It does not exist."}
    assert {option.text for option in choice.options if not option.right} == {
        "0 ms",
        f"{sum(durations)} ms",
        f"{durations[-1]} ms",
    }


@variants_of("request-which-metric-sees")
def test_a_metric_sees_what_lies_between_its_two_ends(asked):
    queue, prefill, step, tokens, own_step = stages(asked)
    (database,) = numbers(r"task waits (\d+) ms for a database", asked.question.text)
    told, old = re.search(r"one thing changes: (.*), and not (\d+)\.", asked.question.text).groups()
    before = {"waits": queue, "reads": prefill, "token's": step, "database": database}
    (cause,) = [word for word in before if word in told]
    assert before[cause] == int(old)
    after = {**before, cause: numbers(r"(\d+) ms", told)[0]}
    old, new = (
        metrics(
            token_times(run["waits"], run["reads"], run["token's"], tokens, own_step),
            run["database"],
        )
        for run in (before, after)
    )
    choice = asked.question.answer
    assert choice.several
    assert right_options(choice) == {name for name in old if old[name] != new[name]}
    for option in choice.options:
        says = option.says.replace(",", "")
        assert says.startswith(f"{old[option.text]} ms before")
        assert (f"{new[option.text]} ms after" in says) == option.right
    assert worked_end(asked).startswith("What changes: ")


def test_what_metrics_see_differs_from_variant_to_variant():
    seen = [right_options(v.question.answer) for v in bake(*exercises("request-which-metric-sees"))]
    assert {"task time"} in seen
    assert {"TPOT", "E2E", "task time"} in seen
    assert {"TTFT", "E2E", "task time"} in seen
    assert {"TTFT", "TPOT", "E2E", "task time"} in seen


CHAIN = (
    "the client sends the request",
    "the server has the request",
    "the first step of the request starts",
    "the last of its prompt is read",
    "its first token leaves the server",
    "its last token leaves the server",
    "the user's task is done",
)


@variants_of("request-moments")
def test_the_moments_come_in_the_order_of_the_chain(asked):
    order = asked.question.answer
    assert list(order.items) == [moment for moment in CHAIN if moment in order.items]
    assert {"the last of its prompt is read", "its first token leaves the server"} <= {*order.items}
    assert worked_end(asked) == f"The order: {'; '.join(order.items)}."
    assert order.wrong
    for wrong in order.wrong:
        moved = [at for at, place in enumerate(wrong.order) if at != place]
        assert len(moved) == 2
        early, late = (order.items[at] for at in moved)
        assert CHAIN.index(late) == CHAIN.index(early) + 1


def test_every_moment_is_asked_for():
    asked = bake(*exercises("request-moments"))
    assert {item for one in asked for item in one.question.answer.items} == set(CHAIN)


def test_the_gaps_of_the_source_are_three():
    gaps = entry("latency-timeline-row-3-tpot").expected["intervals"].value
    assert warm_up(SOURCE).answer.value == gaps
