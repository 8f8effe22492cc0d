"""The questions on what is computed, answered again from their words, without an engine."""

from __future__ import annotations

from asked import knows, numbers, right_options, variants_of

from lab.exercises import variant
from lab.questions import exercises


@variants_of("request-longer-prompt")
def test_a_longer_prompt_takes_as_many_steps(asked):
    text = asked.question.text
    prompt, output, before, longer = numbers(
        r"prompt of (\d+) tokens.*answer of (\d+) tokens.*That takes (\d+) steps"
        r"[\s\S]*as long, (\d+) tokens",
        text,
    )
    assert longer == 10 * prompt
    assert before == 1 + (output - 1)
    choice = asked.question.answer.by
    assert right_options(choice) == {f"{before} steps"}
    wrong = {f"{steps} steps" for steps in (longer + output - 1, 10 * before)}
    assert {option.text for option in choice.options if not option.right} == wrong
    assert f"computes {longer} tokens, and not {prompt}" in asked.question.answer.why


def test_the_guess_has_the_numbers_of_the_chapter():
    assert "prompt of 17 tokens" in variant(*exercises("request-longer-prompt"), 0).question.text


@variants_of("batching-computed-again")
def test_all_that_stands_before_the_next_token_is_computed_again(asked):
    prompt, had, following = numbers(
        r"prompt of (\d+) tokens and has got (\d+) tokens[\s\S]*makes token (\d+) of",
        asked.question.text,
    )
    assert following == had + 1
    answer = asked.question.answer
    assert answer.value == prompt + had
    assert knows(
        answer,
        {
            "reading only the prompt again": prompt,
            "computing only the answer again": had,
            "counting what was lost": prompt + had - 1,
            "going on as if nothing had happened": 1,
        },
    )
