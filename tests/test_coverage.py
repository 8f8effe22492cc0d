"""Every id of the ledger is covered by a chapter, left out with a reason, or not yet due."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from book.coverage import (
    Chapter,
    Mention,
    coverage,
    is_computed,
    of_book,
    read_chapters,
    read_notebook,
    topic_of,
    worked_calls,
)
from lab.worked_numbers import entries, entry

ROOT = Path(__file__).resolve().parent.parent
LEDGER = {id: entry(id).checked for id in entries()}


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / "book" / name).read_text(encoding="utf-8"))


CHAPTERS = read_chapters(parsed("chapters.yaml"))


def test_the_notebooks_cover_what_is_due() -> None:
    result = of_book(ROOT, LEDGER)
    print(
        f"{len(result.covered)} covered, {len(result.left_out)} left out with a reason, "
        f"{len(result.not_yet_written)} in chapters not yet written, {len(result.missing)} missing"
    )
    assert result.problems == ()
    missing = [f"{id} {what}" for id, what in result.missing.items()]
    assert not missing, "finished chapters leave out:\n" + "\n".join(missing)


def test_finished_chapters_have_a_notebook() -> None:
    finished = [chapter.file for chapter in CHAPTERS if chapter.finished]
    assert [file for file in finished if not (ROOT / "chapters" / f"{file}.ipynb").exists()] == []


def test_the_chapters_are_fifteen_in_order() -> None:
    assert [int(chapter.file[:2]) for chapter in CHAPTERS] == list(range(15))
    assert {topic_of(id) for id in LEDGER} == {t for chapter in CHAPTERS for t in chapter.topics}


@pytest.mark.parametrize(
    "source",
    [
        'worked("kv-x", value)',
        'lab.worked("kv-x", f(2))',
        'worked("kv-x", trace.end)',
        'worked("kv-x", {"a": f(1), "b": x})',
        'worked("kv-x", value=x, wrong={"a": x + 1})',
        'worked("kv-x", [f(n) for n in (1, 2)])',
        'row = worked("kv-x", Fraction(total, 3))',
        '%matplotlib inline\nworked("kv-x", rows[0])',
    ],
)
def test_a_call_with_a_computed_value_covers_its_id(source: str) -> None:
    assert worked_calls(source) == (["kv-x"], [])


@pytest.mark.parametrize(
    "value",
    [
        "1",
        "-1",
        "1 / 3",
        '"text"',
        "True",
        "None",
        "[1, 2]",
        "{}",
        '{"a": 1}',
        '{"a": x, "b": 2}',
        '{x: 2, "b": 2}',
        "Fraction(2, 3)",
        "fractions.Fraction(2, 3)",
        "tuple([1, 2])",
        "x, wrong=45",
        'x, wrong={"a": 45}',
    ],
)
def test_a_value_that_is_typed_in_covers_nothing(value: str) -> None:
    ids, complaints = worked_calls(f'worked("kv-x", {value})')
    assert ids == []
    assert complaints == ["worked('kv-x') compares a value that is typed in"]


def test_an_id_must_be_readable_and_the_call_complete() -> None:
    assert worked_calls("worked(id, x)") == ([], ["worked needs its id written as a string"])
    assert worked_calls("worked()") == ([], ["worked needs its id written as a string"])
    assert worked_calls('worked("kv-x")')[0] == []


def test_other_calls_and_other_languages_are_nothing() -> None:
    assert worked_calls('# worked("kv-x", y)\nprint("worked(1, 2)")\nentry("kv-x")') == ([], [])
    assert worked_calls("%%javascript\nworked('kv-x', {...y})") == ([], [])
    ids, complaints = worked_calls("def f(:\n")
    assert ids == []
    assert complaints[0].startswith("not valid Python, line 1")


def test_what_counts_as_computed() -> None:
    def computed(source: str) -> bool:
        return is_computed(ast.parse(source, mode="eval").body)

    assert computed("max(1, 2)")
    assert computed("{'a': {'b': x}}")
    assert not computed("{'a': {'b': 1}}")
    assert not computed("(1, [2, {3: 4}])")


def sample_notebook() -> dict[str, Any]:
    """A chapter as nbformat saves it: source as lines, `covers` on a Markdown and a code cell."""
    return {
        "cells": [
            {"cell_type": "markdown", "metadata": {"covers": ["kv-rule"]}, "source": ["# Why"]},
            {"cell_type": "code", "metadata": {}, "source": ["x = f()\n", 'worked("kv-n", x)']},
            {
                "cell_type": "code",
                "metadata": {"covers": ["kv-list"], "tags": ["hide-input"]},
                "source": 'lab.worked("kv-n", 4)',
            },
        ]
    }


def test_a_notebook_on_disk_is_read_cell_by_cell(tmp_path: Path) -> None:
    path = tmp_path / "05-kv.ipynb"
    path.write_text(json.dumps(sample_notebook()), encoding="utf-8")
    mentions, problems = read_notebook(path.stem, json.loads(path.read_text(encoding="utf-8")))
    assert mentions == [
        Mention("kv-rule", "05-kv", 0, by_number=False),
        Mention("kv-n", "05-kv", 1, by_number=True),
        Mention("kv-list", "05-kv", 2, by_number=False),
    ]
    assert problems == ["05-kv, cell 2: worked('kv-n') compares a value that is typed in"]


SAMPLE_LEDGER = {"kv-n": True, "kv-m": True, "kv-rule": False, "kv-list": False, "spec-n": True}
SAMPLE_CHAPTERS = (
    Chapter("05-kv", "What?", ("kv",), finished=True),
    Chapter("10-spec", "How?", ("spec",), finished=False),
)


def test_the_ids_fall_into_four_groups() -> None:
    mentions, _ = read_notebook("05-kv", sample_notebook())
    result = coverage(SAMPLE_LEDGER, mentions, {"kv-list": "told in the glossary"}, SAMPLE_CHAPTERS)
    assert list(result.covered) == ["kv-n", "kv-rule", "kv-list"]
    assert dict(result.missing) == {"kv-m": "needs a worked call"}
    assert dict(result.not_yet_written) == {"spec-n": ("10-spec",)}
    assert result.problems == ("not_covered.yaml: 'kv-list' is covered after all",)


def test_a_place_is_told_in_words() -> None:
    mentions, _ = read_notebook("05-kv", sample_notebook())
    again = Mention("kv-rule", "07-roof", 2, by_number=False)
    result = coverage(SAMPLE_LEDGER, [*mentions, again], {}, SAMPLE_CHAPTERS)
    assert result.where("kv-n") == "covered in 05-kv"
    assert result.where("kv-rule") == "covered in 05-kv, 07-roof"
    assert result.where("spec-n") == "not yet written: 10-spec"
    assert result.where("kv-m") == "due: needs a worked call"
    result = coverage(SAMPLE_LEDGER, [], {"kv-m": "told elsewhere"}, SAMPLE_CHAPTERS)
    assert result.where("kv-m") == "left out: told elsewhere"


def test_a_book_is_read_from_its_folders(tmp_path: Path) -> None:
    for folder, name, text in (
        ("chapters", "05-kv.ipynb", json.dumps(sample_notebook())),
        ("book", "not_covered.yaml", "{kv-m: why not}"),
        ("book", "chapters.yaml", "chapters: [{file: 05-kv, question: W, topics: [kv, spec], "
         "finished: false}]"),
    ):  # fmt: skip
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text, encoding="utf-8")
    result = of_book(tmp_path, SAMPLE_LEDGER)
    assert list(result.covered) == ["kv-n", "kv-rule", "kv-list"]
    assert dict(result.left_out) == {"kv-m": "why not"}
    assert result.problems == ("05-kv, cell 2: worked('kv-n') compares a value that is typed in",)


def test_a_stated_reason_is_a_group_of_its_own() -> None:
    result = coverage(SAMPLE_LEDGER, [], {"kv-n": "why not", "kv-m": ""}, SAMPLE_CHAPTERS)
    assert dict(result.left_out) == {"kv-n": "why not", "kv-m": ""}
    assert list(result.missing) == ["kv-rule", "kv-list"]
    assert result.problems == ("not_covered.yaml: 'kv-m' needs a reason",)


def test_the_wrong_kind_of_mention_does_not_count() -> None:
    text_for_a_number = Mention("kv-n", "05-kv", 0, by_number=False)
    number_for_a_rule = Mention("kv-rule", "05-kv", 0, by_number=True)
    mentions = [text_for_a_number, number_for_a_rule]
    result = coverage(SAMPLE_LEDGER, mentions, {}, SAMPLE_CHAPTERS)
    assert result.missing["kv-n"] == "needs a worked call"
    assert result.missing["kv-rule"] == "needs a cell that covers it"


def test_unknown_ids_are_problems_in_every_place() -> None:
    by_number = Mention("kv-x", "05-kv", 3, by_number=True)
    by_text = Mention("kv-y", "05-kv", 4, by_number=False)
    result = coverage(SAMPLE_LEDGER, [by_text, by_number], {"kv-z": "no"}, SAMPLE_CHAPTERS)
    assert result.problems == (
        "05-kv, cell 3: unknown id 'kv-x'",
        "05-kv, cell 4: unknown id 'kv-y'",
        "not_covered.yaml: unknown id 'kv-z'",
    )


def test_a_topic_in_two_chapters_is_due_when_both_are_finished() -> None:
    first = Chapter("01-one", "?", ("kv", "spec"), finished=True)
    for finished in (False, True):
        second = Chapter("05-kv", "?", ("kv",), finished=finished)
        result = coverage({"kv-n": True}, [], {}, (first, second))
        assert ("kv-n" in result.missing) == finished


def test_a_topic_without_a_chapter_is_a_problem() -> None:
    result = coverage({"new-id": True}, [], {}, SAMPLE_CHAPTERS)
    assert result.problems == ("no chapter lists the topic 'new'",)
