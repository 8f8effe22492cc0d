"""The bank, every exercise in all its variants: computed again here from what a student reads."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from asked import numbers, variants_of, worked_end

from lab.exercises import VARIANTS, bake, variant
from lab.ledgers.words import counted, listed
from lab.questions import BANK, exercises
from lab.questions.timetables import SLIPS, SOURCE, first_token, wrong_line
from lab.questions.wording import needs, signed, span
from lab.worked_numbers import entry, worked

ROOT = Path(__file__).parents[1]
ALL = [(one, number) for one in exercises() for number in range(VARIANTS)]
EVERY = pytest.mark.parametrize(("one", "number"), ALL, ids=[f"{e.id}/{n}" for e, n in ALL])


# What a student can read off the question


def lengths(asked):
    """How many steps each request needs, from the words of the question."""
    sentence = re.search(r"A (?:still )?needs \d+ step[^;.]*", asked.question.text)[0]
    found = re.findall(r"\b([A-E]) (?:still )?(?:needs )?(\d+)", sentence)
    return {who: int(steps) for who, steps in found}


def arrivals(text):
    return {who: int(at) for who, at in re.findall(r"([A-C]) (?:asks )?at (\d+) ms", text)}


def deliveries(text):
    """The token times of each request, for every timetable in the text."""
    tables = []
    for paragraph in re.findall(r"A's tokens come at .*", text):
        found = re.findall(r"([A-C])'s (?:tokens come )?at ([\d, and]+) ms", paragraph)
        tables.append({who: list(map(int, re.findall(r"\d+", times))) for who, times in found})
    return tables


# Two rules on two seats, as one would do them on paper


def static_seats(steps):
    """(seat, start, stop) of each request when groups of two keep their seats."""
    places, names, start = {}, list(steps), 0
    for group in (names[at : at + 2] for at in range(0, len(names), 2)):
        places |= {who: (seat, start, start + steps[who]) for seat, who in enumerate(group)}
        start += max(steps[who] for who in group)
    return places


def continuous_seats(steps):
    """(seat, start, stop) of each request when the first free seat is given on."""
    free, places = [0, 0], {}
    for who, count in steps.items():
        seat = free.index(min(free))
        places[who] = (seat, free[seat], free[seat] + count)
        free[seat] += count
    return places


def ends(places):
    return {who: stop for who, (_, _, stop) in places.items()}


def idle(places, held):
    return 2 * max(ends(places).values()) - sum(held.values())


# Every exercise


@EVERY
def test_a_variant_is_the_same_on_every_call_and_survives_json(one, number):
    first, again = variant(one, number), variant(one, number)
    assert first == again
    plain = first.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["kind"] == first.kind


@EVERY
def test_the_text_never_holds_the_worked_answer_nor_what_is_said_afterwards(one, number):
    asked = variant(one, number)
    told = [*asked.question.worked, *asked.question.hints, *said(asked.to_json()["answer"])]
    assert told
    for sentence in told:
        assert sentence not in asked.text()
    for line in asked.question.worked:
        assert line in asked.answer_text()


def said(plain):
    """Every sentence that is shown only after an answer."""
    if isinstance(plain, list):
        return [sentence for part in plain for sentence in said(part)]
    if not isinstance(plain, dict):
        return []
    own = plain.get("says", [])
    later = [sentence for name, part in plain.items() if name != "says" for sentence in said(part)]
    return [*(own if isinstance(own, list) else [own]), *filter(None, [plain.get("why")]), *later]


@EVERY
def test_every_wrong_answer_differs_and_is_answered(one, number):
    asked = variant(one, number)
    assert all(sentence.endswith(".") for sentence in said(asked.to_json()["answer"]))
    for cell in cells(asked.to_json()["answer"]):
        values = [cell["value"], *(wrong["value"] for wrong in cell["wrong"])]
        assert all(b - a > cell["tolerance"] for a, b in pairwise(sorted(values)))
        assert all(wrong["method"] for wrong in cell["wrong"])


def cells(answer):
    """The numbers that an answer asks for: its own, or those of its table."""
    rows = answer.get("rows", [[answer]])
    return [cell for row in rows for cell in row if isinstance(cell, dict) and "value" in cell]


@pytest.mark.parametrize("one", exercises(), ids=lambda one: one.id)
def test_hints_go_on_from_a_nudge_and_text_has_no_loose_ends(one):
    for asked in bake(one):
        assert 1 <= len(asked.question.hints) <= 3
        for text in (asked.question.text, asked.answer_text(), *asked.question.hints):
            assert not re.search(
                r"None|Fraction\(|\b1 (steps|seat-steps|tokens|dollars)\b|!", text
            ), text


def test_seeded_exercises_vary_and_the_guess_does_not():
    for one in exercises():
        texts = {asked.text().split("\n", 1)[1] for asked in bake(one)}
        if one.id == "batching-whose-answer-is-later":
            assert len(texts) == 1
        else:
            assert len(texts) >= 9, one.id


# One by one


@variants_of("batching-whose-answer-is-later")
def test_only_as_answer_comes_later(asked):
    right = [o["text"] for o in asked.to_json()["answer"]["options"] if o["right"]]
    source = entry("batching-t311-row-a").inputs
    later = [w for w in "ABC" if source["continuous"][w][-1] > source["serial"][w][-1]]
    assert right == [f"{who}'s" for who in later] == ["A's"]
    why = asked.question.answer.why
    gaps = [source[name]["A"][1] - source[name]["A"][0] for name in ("continuous", "serial")]
    assert "its tokens lie {} ms apart and not {}.".format(*gaps) in why
    assert "step" not in why  # the timetables are given without steps
    assert worked_end(asked) == "Only one answer comes later: A's."


@variants_of("batching-warm-up")
def test_prefill_is_one_step_and_makes_the_first_token(asked):
    prompt, output = numbers(
        r"prompt of (\d+) tokens and gets an answer of (\d+)", asked.question.text
    )
    assert asked.question.answer.value == 1 + (output - 1)
    assert {w.value for w in asked.question.answer.wrong} == {
        prompt + output,
        1 + output,
        output - 1,
    }


@variants_of("batching-idle-seats")
def test_idle_seat_steps_are_what_the_groups_leave(asked):
    held = lengths(asked)
    left = idle(static_seats(held), held)
    answer = asked.question.answer
    assert answer.value == left > idle(continuous_seats(held), held)
    wrong = {w.method: w.value for w in answer.wrong}
    first = list(held.values())[:2]
    expected = {
        "leaving out the groups after the first": 2 * max(first) - sum(first),
        "giving the seats on at once": idle(continuous_seats(held), held),
        "counting busy seat-steps": sum(held.values()),
    }
    assert wrong.items() <= expected.items()
    assert {*wrong.values(), left} == {*expected.values(), left}  # what is dropped is no loss


@variants_of("batching-who-sits-where")
def test_each_cell_names_who_sits_there(asked):
    places = continuous_seats(lengths(asked))
    _, *rows = asked.question.answer.rows
    assert len(rows) + 1 == max(ends(places).values())
    for number, *seats in rows:
        for seat, cell in enumerate(seats):
            here = [w for w, (s, a, b) in places.items() if s == seat and a < int(number) <= b]
            assert cell.text == (here[0] if here else "idle")
            assert cell.text not in [wrong.text for wrong in cell.wrong]


def test_a_wrong_seat_is_the_one_of_static_batching_or_of_the_step_before():
    for asked in bake(*exercises("batching-who-sits-where")):
        grouped = static_seats(lengths(asked))
        (_, *before), *rows = asked.question.answer.rows
        for number, *seats in rows:
            for seat, cell in enumerate(seats):
                static = [
                    w for w, (s, a, b) in grouped.items() if s == seat and a < int(number) <= b
                ]
                possible = {static[0] if static else "idle", before[seat]}
                assert {w.text for w in cell.wrong} == possible - {cell.text} - (
                    {"idle"} if before[seat] == "idle" and static else set()
                )
            before = [cell.text for cell in seats]


@variants_of("batching-draw-seats")
def test_the_drawing_is_what_the_rule_gives(asked):
    plain = asked.to_json()["answer"]
    places = continuous_seats(lengths(asked))
    assert plain["by"] == "drawing"
    assert plain["truth"] == {w: [f"seat {s + 1}", a, b] for w, (s, a, b) in places.items()}
    assert plain["steps"] == max(ends(static_seats(lengths(asked))).values())
    seated = re.findall(r"([A-C]) in seat (\d), steps? (\d+)(?: to (\d+))?", worked_end(asked))
    assert {
        who: (int(seat) - 1, int(start) - 1, int(stop or start))
        for who, seat, start, stop in seated
    } == places


@variants_of("batching-what-changes")
def test_a_statement_is_right_where_it_holds(asked):
    held = lengths(asked)
    before, after = static_seats(held), continuous_seats(held)
    old, new = ends(before), ends(after)
    last = list(held)[-1]
    holds = {
        "Every request is done sooner.": all(new[w] < old[w] for w in held),
        "No request is done later.": all(new[w] <= old[w] for w in held),
        "All of them together are done sooner.": max(new.values()) < max(old.values()),
        f"{last}, the last in the queue, is done sooner.": new[last] < old[last],
        "Fewer seat-steps are idle.": idle(after, held) < idle(before, held),
        "The gaps between the tokens of a running request get shorter.": False,
    }
    assert {o.text: o.right for o in asked.question.answer.options} == holds
    said = worked_end(asked)
    assert {text for text in holds if text in said} == {t for t, right in holds.items() if right}


@variants_of("batching-seat-changes-hands")
def test_the_events_are_in_the_order_of_a_run_on_paper(asked):
    left = lengths(asked)
    prompt = int(re.search(r"The (\d+) tokens of its prompt", asked.question.text)[1])
    early, late = sorted(left, key=left.__getitem__)
    step, events = left[early], [f"{early} gets its last token", f"{early}'s seat is free"]
    events += ["C takes that seat", "the first tokens of C's prompt are computed"]
    left[late] -= step
    while prompt > 0 or left[late] > 0:
        prompt -= 3 - (left[late] > 0)
        left[late] -= 1
        if prompt <= 0 and "C gets its first token" not in events:
            events.append("C gets its first token")
        if left[late] == 0:
            events.append(f"{late} gets its last token")
    order = asked.question.answer
    assert list(order.items) == events
    static, too_early = ([events[place] for place in wrong.order] for wrong in order.wrong)
    assert static[:3] == [events[0], f"{late} gets its last token", events[1]]
    assert too_early == [events[0], events[2], events[1], *events[3:]]
    assert worked_end(asked) == f"The order: {'; '.join(events)}."


@variants_of("batching-one-go")
def test_one_go_costs_one_step_with_the_whole_prompt(asked):
    base, price = numbers(r"A step takes (\d+) ms, and ([\d.]+) ms more", asked.question.text)
    (prompt,) = numbers(r"prompt of ([\d,]+) tokens", asked.question.text)
    (chunk,) = numbers(r"at most (\d+) tokens", asked.question.text)
    (bound,) = numbers(r"up to (\d+) ms", asked.question.text)
    scale = asked.question.answer.by
    pieces = -(-prompt // chunk)
    assert scale.truth == base + prompt * price
    assert bound == base + chunk * price
    assert [w.value for w in scale.wrong] == [base, bound, pieces * base + prompt * price]


@variants_of("batching-first-token")
def test_the_first_token_counts_from_the_arrival(asked):
    text = asked.question.text
    who = re.search(r"What is ([BC])'s TTFT", text)[1]
    (times,), asks = deliveries(text), arrivals(text)
    answer = asked.question.answer
    assert answer.value == times[who][0] - asks[who]
    wrong = [times[who][0], times[who][-1] - asks[who]]
    assert [w.value for w in answer.wrong] == [value for value in wrong if value != answer.value]


def test_for_an_answer_of_one_token_the_whole_time_is_no_wrong_answer():
    assert [w.method for w in first_token(SOURCE.together, "C").answer.wrong] == [
        "forgetting the arrival"
    ]


@variants_of("batching-request-times")
def test_a_request_lasts_from_its_arrival_to_its_last_token(asked):
    serial, together = deliveries(asked.question.text)
    asks = arrivals(asked.question.text)
    for who, *filled in asked.question.answer.rows:
        old, new = (times[who][-1] - asks[who] for times in (serial, together))
        assert [cell.value for cell in filled] == [old, new, new - old]


@variants_of("batching-wrong-line")
def test_exactly_one_line_of_the_ledger_is_wrong(asked):
    (times,), asks = deliveries(asked.question.text), arrivals(asked.question.text)
    line = asked.question.answer
    wrong = [place for place, text in enumerate(line.lines) if text != right(times, asks)[place]]
    assert wrong == [line.wrong]
    assert all(says.startswith("This line is right") for says in right_says(line))


def right(times, asks):
    tpot = {w: Fraction(t[-1] - t[0], len(t) - 1) for w, t in times.items() if len(t) > 1}
    mean = sum(tpot.values()) / len(tpot)
    return [
        *(f"{who}: TTFT {times[who][0] - asks[who]} ms" for who in times),
        *(f"{w}: TPOT {float(tpot[w]):.4g} ms" if w in tpot else f"{w}: no TPOT" for w in times),
        f"mean TPOT {float(mean):.4g} ms",
    ]


def right_says(line):
    return [says for place, says in enumerate(line.says) if place != line.wrong]


def test_the_slips_are_those_of_the_sources():
    answers = {slip: wrong_line(SOURCE.together, slip).answer for slip in SLIPS}
    lines = {slip: answer.lines[answer.wrong] for slip, answer in answers.items()}
    mean = entry("latency-c-zero-tpot-is-fiction").wrong["mean_continuous_with_zero"].value
    forgotten = entry("latency-ttft-forgetting-arrival").wrong["B_no_arrival"].value[1]
    assert list(lines.values()) == [
        "C: TPOT 0 ms",
        f"mean TPOT {float(mean):.4g} ms",
        f"B: TTFT {forgotten} ms",
        "A: TPOT 33.33 ms",
    ]


@variants_of("batching-fixed-window")
def test_a_fixed_window_counts_to_its_end(asked):
    serial, together = deliveries(asked.question.text)
    (window,) = numbers(r"\*fixed window\* of (\d+) ms, from", asked.question.text)
    tokens = sum(map(len, together.values()))
    last = [max(t[-1] for t in times.values()) for times in (together, serial)]
    assert window >= last[1]
    answer = asked.question.answer
    assert answer.value == tokens / (window / 1000)
    rates = [tokens * Fraction(1000, end) for end in last]
    possible = [*rates, tokens / window, 3 / (window / 1000)]
    assert {w.value for w in answer.wrong} <= set(possible)
    assert all(
        value in {w.value for w in answer.wrong}
        or min(abs(value - v) for v in (answer.value, *(w.value for w in answer.wrong)))
        <= answer.tolerance
        for value in possible
    )


@variants_of("batching-drain-ratio")
def test_the_drain_windows_differ_and_so_do_the_rates(asked):
    old, new = numbers(r"comes at (\d+) ms, \*together\* at (\d+) ms", asked.question.text)
    (window,) = numbers(r"\*fixed window\* of (\d+) ms", asked.question.text)
    answer = asked.question.answer
    assert answer.value == old / new
    assert {w.value for w in answer.wrong} <= {window / new, 1, new / old}


@variants_of("batching-price-of-a-thousand")
def test_the_price_is_that_of_the_window(asked):
    price, tokens, new, old = numbers(
        r"costs (\d+) dollars? an.*last of (\d+) output.*at (\d+) ms;.*at (\d+) ms\.",
        asked.question.text,
    )
    bill = [price * end / 1000 / 3600 for end in (new, old)]
    answer = asked.question.answer
    assert answer.value == 1000 * bill[0] / tokens
    assert [w.value for w in answer.wrong] == [
        1000 * bill[1] / tokens,
        1000 * answer.value,
        bill[0],
        1000 * price / tokens,
    ]


@variants_of("batching-reserved-hour")
def test_a_reserved_hour_costs_the_same(asked):
    old, new = numbers(r"done at (\d+) ms; served together, at (\d+) ms", asked.question.text)
    before, after = numbers(r"grow from (\d+) to (\d+) ms", asked.question.text)
    assert {option.text: option.right for option in asked.question.answer.options} == {
        "It stays the same.": True,
        f"It falls by {float(100 * (old - new) / old):.0f} %.": False,
        f"It rises by {float(100 * (after - before) / before):.0f} %.": False,
    }


# The numbers of the sources are variant 0


def first(id):
    return variant(*exercises(id), 0).question.answer


def test_variant_0_has_the_numbers_of_the_sources():
    rows = {who: [cell.value for cell in row] for who, *row in first("batching-request-times").rows}
    a, b, c = rows.values()
    changes = {"change_A": a[2], "change_B": b[2]}
    times = [{"A": a[column], "B": b[column]} for column in (0, 1)]
    worked("exercise-1-request-times", {"serial": times[0], "continuous": times[1], **changes})
    worked("exercise-1-extension-c", dict(zip(("serial", "continuous", "change"), c, strict=True)))
    rate = first("batching-fixed-window").value
    worked("exercise-2-window-500", {"serial": rate, "continuous": rate})
    worked("batching-two-slot-static", {
        "finish_A": 2, "finish_B": 4, "finish_C": 6, "makespan": 6, "occupancy": Fraction(2, 3),
        "idle_slot_steps": first("batching-idle-seats").value,
    })  # fmt: skip
    worked("throughput-drain-meaning", first("batching-drain-ratio").value)
    price = first("batching-price-of-a-thousand")
    worked("cost-per-thousand-output-tokens", {
        "serial": price.wrong[0].value, "continuous": price.value,
    })  # fmt: skip
    ttft = first("batching-first-token")
    assert ttft.value == entry("latency-b-ttft-computation").expected["continuous"].value


def test_the_timetables_are_those_of_the_sources():
    given = entry("batching-t311-row-a").inputs
    for name, trace in (("serial", SOURCE.serial), ("continuous", SOURCE.together)):
        assert {r.id: trace.token_times(r.id) for r in trace.requests} == given[name]
    assert [r.arrival for r in SOURCE.serial.requests] == list(given["arrive"].values())


def test_drawn_timetables_are_no_lockstep_schedule_and_a_pays_in_all_of_them():
    for asked in bake(*exercises("batching-request-times")):
        rows = {who: [cell.value for cell in row] for who, *row in asked.question.answer.rows}
        assert rows["A"][2] > 0 > max(rows["B"][2], rows["C"][2])


def test_only_the_guess_says_that_its_times_are_chosen():
    said = {one.id for one in exercises() if "chose them" in variant(one, 0).text()}
    assert said == {"batching-whose-answer-is-later"}


# The bank


def test_exercises_are_numbered_in_the_order_in_which_the_chapter_asks_them():
    cells = json.loads((ROOT / "chapters" / "02-batching.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    known = [one.id for one in BANK[2]]
    asked = [name for name in re.findall(r'"(batching-[a-z-]+)"', code) if name in known]
    assert asked == known


def test_exercises_are_found_by_chapter_and_by_id():
    assert exercises("2") == BANK[2]
    assert exercises() == tuple(one for bank in BANK.values() for one in bank)
    assert all(one.chapter == chapter for chapter, bank in BANK.items() for one in bank)
    assert [one.id for one in exercises("batching-one-go")] == ["batching-one-go"]
    assert len({one.id for one in exercises()}) == len(exercises())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("7", f"chapter 7 has no exercises; those that do: {', '.join(map(str, BANK))}"),
        (
            "batching-idle",
            f"unknown exercise 'batching-idle' among {len(exercises())}; nearest: batching-idle",
        ),
        ("xyz", f"unknown exercise 'xyz' among {len(exercises())}$"),
    ],
)
def test_what_is_not_there_is_named(name, message):
    with pytest.raises(ValueError, match=message):
        exercises(name)


def test_all_kinds_of_answer_are_asked():
    kinds = {variant(one, 1).kind for one in exercises("2")}
    assert kinds == {"number", "choice", "order", "table", "line", "predict"}


def test_words_are_joined_as_in_a_sentence():
    assert listed([100]) == "100"
    assert listed([100, 150, 200]) == "100, 150 and 200"
    assert counted(1, "token") == "1 token"
    assert counted(3, "token") == "3 tokens"
    assert needs({"A": 1, "B": 4, "C": 2}) == "A needs 1 step, B 4 steps and C 2 steps"
    assert [span(2, 3), span(0, 4)] == ["step 3", "steps 1 to 4"]
    assert [signed(20), signed(-100), signed(0)] == ["+20", "−100", "+0"]
