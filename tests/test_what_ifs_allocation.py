"""One memory under four rules, slot by slot: what is drawn is what the accounts say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.allocators import Pages, fill
from lab.what_ifs.allocation import BLOCK, PROMPTS, ROLES, RULES, SLOTS, four_rules

answers = st.tuples(*[st.integers(1, 8)] * 3)
KIND_OF = {role: kind for kind, role in ROLES.items()}


def counts(scene, lane):
    found = dict.fromkeys(ROLES, 0)
    for mark in scene.marks:
        if mark.lane == lane:
            found[KIND_OF[mark.role]] += mark.stop - mark.start
    return tuple(found.values())


@given(answers, st.integers(1, 20))
def test_slots_by_kind_are_those_of_the_accounts(lengths, step):
    (scene,) = four_rules(*lengths, step)
    rows = zip(PROMPTS, lengths, strict=True)
    work = lab.Workload.given({who: (0, PROMPTS[who], n) for who, n in rows})
    for name, rule in {**RULES, "paging": Pages(BLOCK)}.items():
        account = fill(work, rule, SLOTS)
        if step > len(account.steps):
            assert counts(scene, name) == (0, 0, 0)
        else:
            slots = account.steps[step - 1]
            assert counts(scene, name) == slots[:3]
            told = scene.finding.lower().split(f"{name}: ")[1].split(";")[0]
            assert ("wait" in told) == (slots.waiting > 0)


@given(answers, st.integers(1, 12))
def test_no_slot_has_two_owners(lengths, step):
    (scene,) = four_rules(*lengths, step)
    for lane in scene.lanes:
        taken = [slot for m in scene.marks if m.lane == lane for slot in range(m.start, m.stop)]
        assert len(taken) == len(set(taken))
        assert lane == "asked" or set(taken) <= set(range(SLOTS))


def test_the_pages_of_a_request_need_not_be_neighbours() -> None:
    (scene,) = four_rules(6, 2, 4, 2)
    assert [(m.label, m.start) for m in scene.marks if m.lane == "paging"] == [
        ("A 4", 0), ("A 1", 16), ("A later 3", 17), ("B 4", 4),
        ("C 4", 8), ("C 2", 12), ("C later 2", 14),
    ]  # fmt: skip
    assert scene.finding == (
        "Engine step 2. Maximum: 9 slots used by A and B, C waits; power of two: 9 slots used by A "
        "and B, C waits; oracle: 15 slots used by A, B and C; paging: 15 slots used by A, B and C."
    )


def test_the_answers_can_be_dragged_and_all_results_are_baked() -> None:
    lengths = {
        f"answer_{who}": lab.Knob(n, 2, 6, label=f"{who.upper()}'s answer", unit="tokens")
        for who, n in zip("abc", (6, 2, 4), strict=True)
    }
    widget = lab.what_if(four_rules, **lengths, step=lab.Knob(2, 1, 4, label="step", kind="count"))
    assert len(widget.baked["results"]) == 500
    ids = {mark["id"] for mark in widget.scenes[0]["marks"]}
    assert set(lengths) <= ids
