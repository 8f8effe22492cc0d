"""The questions on guesses, computed again from their words."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from random import Random

from asked import knows, numbers, right_options, variants_of

from lab.questions import exercises
from lab.questions.speculation import SOURCE, draw_again
from lab.worked_numbers import entry

NAMES = ("Paris", "Lyon", "Nice")


def pair(text):
    """Draft and target, as shares of 1, by the names of the tokens."""
    draft, target = re.search(r"guess with ([^.]+)\. The target says ([^.]+)\.", text).groups()
    return [
        {who: Fraction(int(share), 100) for who, share in re.findall(r"(\w+) (\d+) %", row)}
        for row in (draft, target)
    ]


def again(draft, target):
    """What comes out when a rejected guess is drawn from the target: every way, added up."""
    out = dict.fromkeys(draft, Fraction(0))
    for who, share in draft.items():
        stands = min(Fraction(1), target[who] / share)
        out[who] += share * stands
        for other in out:
            out[other] += share * (1 - stands) * target[other]
    assert sum(out.values()) == 1
    return out


@variants_of("speculation-warm-up")
def test_guessed_and_accepted(asked):
    guessed, accepted = numbers(
        r"in (\d+) % of all cases. Of these guesses (\d+) %", asked.question.text
    )
    assert asked.question.answer.value == guessed * accepted / 100
    assert knows(
        asked.question.answer,
        {
            "leaving out how often it is guessed": accepted,
            "adding the chances": guessed + accepted,
            "taking those that fall": guessed * (100 - accepted) / 100,
        },
    )


@variants_of("speculation-draw-again")
def test_drawing_again_from_the_target(asked):
    draft, target = pair(asked.question.text)
    found, wanted = again(draft, target)["Paris"], target["Paris"]
    (right,) = right_options(asked.question.answer.by)
    assert right == ("more often" if found > wanted else "less often")
    assert f"= {100 * found} %" in asked.question.answer.why


def test_the_opening_question_has_the_ledgers_numbers():
    found = entry("spec-ex2-row-6-wrong")
    assert [list(SOURCE.target), list(SOURCE.draft)] == [found.inputs["p"], found.inputs["q"]]
    asked = draw_again(SOURCE, Random(0))
    assert right_options(asked.answer.by) == {"less often"}
    wrong = found.wrong["resample_from_p"].value
    assert f"= {100 * wrong[0]} %" in asked.answer.why


@variants_of("speculation-account")
def test_the_account_of_every_token(asked):
    draft, target = pair(asked.question.text)
    lacking = {who: max(target[who] - draft[who], 0) for who in draft}
    for row in asked.question.answer.rows:
        who, q, p, accept, stands, after = row
        assert (Fraction(q), Fraction(p)) == (draft[who], target[who])
        assert accept.value == min(1, target[who] / draft[who])
        assert stands.value == min(draft[who], target[who])
        assert after.value == lacking[who] / sum(lacking.values())


def test_the_account_begins_with_the_exercise_of_the_source():
    (one,) = exercises("speculation-account")
    rows = one.first().answer.rows
    found = entry("exercise-3-speculative-correction")
    for column, name in ((3, "accept"), (4, "accepted_mass"), (5, "residual")):
        assert [row[column].value for row in rows] == found.expected[name].value


@variants_of("speculation-residual")
def test_what_is_drawn_after_a_rejection(asked):
    text, answer = asked.question.text, asked.question.answer
    draft, target = pair(text)
    name = re.search(r"must (\w+) be drawn", text)[1]
    lacking = {who: max(target[who] - draft[who], 0) for who in draft}
    assert sum(lack > 0 for lack in lacking.values()) == 2
    assert answer.value == 100 * lacking[name] / sum(lacking.values())
    among = sum(target[who] for who in lacking if lacking[who])
    assert knows(
        answer,
        {
            "drawing from the target": 100 * target[name],
            "not dividing by what is lacking in all": 100 * lacking[name],
            "dividing the target among those that lack something": 100 * target[name] / among,
            "drawing from the draft": 100 * draft[name],
        },
    )


@variants_of("speculation-broken")
def test_a_broken_rule_delivers_something_else(asked):
    text, answer = asked.question.text, asked.question.answer
    draft, target = pair(text)
    name = re.search(r"is (\w+) delivered", text)[1]
    stands = min(draft[name], target[name])
    rejected = 1 - sum(min(draft[who], target[who]) for who in draft)
    assert answer.value == 100 * again(draft, target)[name]
    assert knows(
        answer,
        {
            "expecting the target": 100 * target[name],
            "counting guesses that stand alone": 100 * stands,
            "drawing again always": 100 * (stands + target[name]),
            "letting all guesses stand": 100 * (draft[name] + rejected * target[name]),
        },
    )


@variants_of("speculation-tokens")
def test_tokens_of_a_run(asked):
    text, answer = asked.question.text, asked.question.answer
    (drafts,) = numbers(r"makes (\d+) guesses", text)
    stood = [int(n) for n in re.findall(r"\d+", re.search(r"the other, (.*) of them", text)[1])]
    brought = [count + 1 for count in stood]
    full = stood.count(drafts)
    assert answer.value == sum(brought)
    assert full > 0
    assert knows(
        answer,
        {
            "counting guesses alone": sum(stood),
            "leaving out the bonus": sum(brought) - full,
            "leaving out what comes instead of a guess that fell": sum(stood) + full,
            "letting all guesses stand": len(stood) * (drafts + 1),
            "counting what was guessed": len(stood) * drafts,
        },
    )


@variants_of("speculation-greedy")
def test_greedy_matching_delivers_what_the_target_alone_would(asked):
    text = asked.question.text
    guesses, choices = (
        [int(n) for n in re.search(pattern, text)[1].split(", ")]
        for pattern in (r"4 ids ([\d, ]+)\.", r"each guess: ([\d, ]+)\.")
    )
    delivered = []
    for guess, choice in zip([*guesses, None], choices, strict=True):
        delivered.append(choice)
        if guess != choice:
            break
    assert right_options(asked.question.answer) == {", ".join(map(str, delivered))}
    assert len(asked.question.answer.options) == 5


@variants_of("speculation-best")
def test_the_best_number_of_guesses(asked):
    text = asked.question.text
    alpha = numbers(r"stands in (\d+) %", text)[0] / 100
    cost = Fraction(re.search(r"takes ([\d/]+) of a step", text)[1])
    speeds = {
        drafts: sum(alpha**k for k in range(drafts + 1)) / (1 + drafts * cost)
        for drafts in (0, 1, 2, 4, 8)
    }
    fastest = max(speeds, key=speeds.get)
    names = {0: "no guesses", 1: "1 guess"}
    assert right_options(asked.question.answer) == {names.get(fastest, f"{fastest} guesses")}


def test_the_best_number_is_not_always_the_same():
    (one,) = exercises("speculation-best")
    right = {next(iter(right_options(one.make(Random(n)).answer))) for n in range(40)}
    assert len(right) >= 4


@variants_of("speculation-same-text")
def test_two_texts_of_one_distribution(asked):
    text, answer = asked.question.text, asked.question.answer
    probs = [p / 100 for p in numbers(r"says (\d+) %, (\d+) % and (\d+) %", text)]
    (tokens,) = numbers(r"first (\d+) tokens", text)
    one = {}
    for ids in product(range(3), repeat=int(tokens)):
        one[ids] = 1
        for id in ids:
            one[ids] *= probs[id]
    assert answer.value == 100 * sum(prob**2 for prob in one.values())
    assert knows(
        answer,
        {
            "taking equal distributions for equal texts": 100,
            "looking at one token": 100 * sum(p**2 for p in probs),
            "taking the likeliest text": 100 * max(one.values()),
            "both taking the likeliest text": 100 * max(one.values()) ** 2,
        },
    )
