"""Public traces: the file where there is one, else requests of the same shape."""

from __future__ import annotations

from pathlib import Path

import pytest

import lab
from lab.draws import Quantiles
from lab.public_traces import FOLDER, PUBLIC

NAME = "azure-conversation-2023"
MOONCAKE = "mooncake-conversation"
TRACES = Path(__file__).parents[2] / "shared" / "traces"


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)


def share(values, at):
    return sorted(values)[int(at * len(values))]


def test_without_a_file_the_requests_have_the_shape_of_the_trace(no_folder):
    drawn = lab.public_trace(NAME, 20_000)
    assert drawn.name == f"drawn in the shape of {NAME}"
    assert len(drawn) / drawn.span == pytest.approx(PUBLIC[NAME].per_s, rel=0.03)
    for lengths, known in (
        ([r.prompt_tokens for r in drawn], PUBLIC[NAME].prompt),
        ([r.max_tokens for r in drawn], PUBLIC[NAME].output),
    ):
        for at in (0.1, 0.25, 0.75, 0.9):
            expected = dict(known.points)[at]
            assert share(lengths, at) == pytest.approx(expected, rel=0.12), at


def test_the_same_seed_draws_the_same_and_another_another(no_folder):
    assert lab.public_trace(NAME, 9) == lab.public_trace(NAME, 9)
    assert lab.public_trace(NAME, 9) != lab.public_trace(NAME, 9, seed=1)


def test_a_file_is_read_where_the_folder_is_named(tmp_path, monkeypatch):
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    rows += [f"2023-11-16 18:15:4{i}.0000000,{10 + i},{3 + i}" for i in range(5)]
    (tmp_path / PUBLIC[NAME].file).write_text("\n".join(rows) + "\n")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    read = lab.public_trace(NAME, 3)
    assert read.name == PUBLIC[NAME].file
    assert [(r.arrival, r.prompt_tokens, r.max_tokens) for r in read] == [
        (0, 10, 3),
        (1, 11, 4),
        (2, 12, 5),
    ]


def test_a_copy_may_have_a_word_in_front_of_its_name(tmp_path, monkeypatch):
    row = '{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [0, 1]}'
    (tmp_path / "mooncake_conversation_trace.jsonl").write_text(row)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert [r.prompt_tokens for r in lab.public_trace(MOONCAKE, 9)] == [600]


def test_a_folder_without_the_file_and_an_unknown_name_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(ValueError, match=r"no AzureLLM\w+\.csv is there: see github\.com/Azure"):
        lab.public_trace(NAME, 3)
    with pytest.raises(ValueError, match=f"one of {NAME}, mooncake-conversation, got 'azure'"):
        lab.public_trace("azure", 3)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the public trace is not here")
@pytest.mark.parametrize(("name", "count"), [(NAME, 19_366), (MOONCAKE, 12_031)])
def test_the_quantiles_are_those_of_the_file(monkeypatch, name, count):
    monkeypatch.setenv(FOLDER, str(TRACES))
    work = lab.public_trace(name, 10**9)
    assert len(work) == count
    assert len(work) / work.span == pytest.approx(PUBLIC[name].per_s, rel=0.001)
    for lengths, known in (
        ([r.prompt_tokens for r in work], PUBLIC[name].prompt),
        ([r.max_tokens for r in work], PUBLIC[name].output),
    ):
        inner = sorted(lengths)
        for at, expected in known.points:
            assert inner[int(at * (len(inner) - 1))] == expected


@pytest.mark.skipif(not TRACES.is_dir(), reason="the public trace is not here")
def test_a_conversation_is_drawn_as_the_file_has_them(monkeypatch):
    monkeypatch.setenv(FOLDER, str(TRACES))
    shape = PUBLIC[MOONCAKE].conversations
    last, starts, growths, pauses, follows = {}, [], [], [], 0
    for request in lab.public_trace(MOONCAKE, 10**9):
        ids = request.prompt.hash_ids
        known = next((n for n, one in enumerate(ids) if one not in last), len(ids))
        before = last[ids[known - 1]] if known > 1 else None
        if before is None:
            starts.append(request.prompt_tokens - 512)
        elif known >= len(before.prompt.hash_ids) - 1:
            follows += 1
            growths.append(max(1, request.prompt_tokens - before.prompt_tokens))
            pauses.append(max(1, int(request.arrival - before.arrival)))
        last |= dict.fromkeys(ids, request)
    for found, drawn in (
        *((starts, shape.first), (growths, shape.growth)),
        (pauses, shape.pause_s),
    ):
        inner = sorted(found)
        for at, expected in drawn.points:
            assert inner[int(at * (len(inner) - 1))] == pytest.approx(expected, abs=2), at
    assert follows / 12_031 == pytest.approx(shape.goes_on, abs=0.001)
    assert (12_031 - follows) / 3537 == pytest.approx(shape.per_s, abs=0.01)


def test_quantiles_draw_between_their_points():
    lengths = Quantiles(((0, 2), (0.5, 20), (1, 90)))
    assert [lengths.at(s) for s in (0, 0.25, 0.5, 0.75, 0.999999)] == [2, 11, 20, 55, 89]


def test_quantiles_must_rise_from_0_to_1():
    with pytest.raises(ValueError, match=r"from 0 to 1, got \[0, 0\.5\]"):
        Quantiles(((0, 2), (0.5, 20)))
    with pytest.raises(ValueError, match=r"lengths must rise, got \[9, 2\]"):
        Quantiles(((0, 9), (1, 2)))
