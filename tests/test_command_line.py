"""The command line as a user meets it: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

import lab
from lab import __main__ as command_line
from lab import recompute
from lab.questions import exercises
from lab.trace_json import load
from lab.worked_numbers import entry

ROOT = Path(__file__).parents[1]
PUBLIC = ROOT.parent / "shared" / "traces"
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,4
2023-11-16 18:15:46.6905900,39,6
2023-11-16 18:15:46.7105900,87,2
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text(AZURE)
    return path


def run(*arguments):
    """The command in a process of its own, as a user calls it."""
    command = [sys.executable, "-m", "lab", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)


def test_a_small_trace_prints_its_ledgers_and_its_timeline(small):
    result = run("simulate", small, "--ttft", 1, "--price", 2)
    assert result.returncode == 0
    assert result.stderr == ""
    for words in ("3 requests", "seat 1", "TTFT", "tokens/s", "contract in s", "per 1,000 output"):
        assert words in result.stdout


def test_the_files_it_writes_hold_the_run(small, tmp_path):
    trace, viewer = tmp_path / "trace.json", tmp_path / "viewer.json"
    result = run("simulate", small, "--json", trace, "--perfetto", viewer)
    assert result.returncode == 0
    assert [record.output_tokens for record in load(trace).requests] == [4, 6, 2]
    assert json.loads(viewer.read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "static", "--seats", "2", "--timeout", "0.5"], "static batching, 2 seats"),
        (["--affine", "0.01", "0.0001", "0", "0"], "affine"),
        (["--order", "shortest-first", "--no-chunked-prefill"], "token budget 2,048"),
        (["--blocks", "100", "--preemption", "never"], "100 blocks"),
    ],
)
def test_the_options_reach_the_run(small, capsys, options, words):
    assert command_line.main(["simulate", str(small), *options]) == 0
    assert words in capsys.readouterr().out


def test_a_trace_that_fits_nowhere_says_so(small, capsys):
    assert command_line.main(["simulate", str(small), "--blocks", "1"]) == 2
    output = capsys.readouterr()
    assert "may need 24 blocks for 377 positions, and the pool has 1" in output.out
    assert "all 3 requests were refused" in output.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AZURE + "2023-11-16 18:15:47,many,1\n", ["line 5", "many"]),
        (AZURE + "2023-11-16 18:15:47,10\n", ["line 5"]),
        (AZURE + "2023-11-16 18:15:47,-3,1\n", ["line 5", "-3"]),
        ("when,in,out\n1,2,3\n", ["when,in,out"]),
        ("", ["empty"]),
    ],
)
def test_a_bad_file_is_one_line_and_status_2(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    result = run("simulate", path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seats", "0"], ["seats", "at least 1", "0"]),
        (["--token-budget", "8"], ["token_budget", "8", "256"]),
        (["--model", "gpt-9"], ["gpt-9", "llama-3-8b"]),
        (["--device", "abacus"], ["abacus", "h100"]),
        (["--limit", "0"], ["limit", "0"]),
        (["--speed", "-1"], ["speed", "-1"]),
        (["--ttft", "-1"], ["ttft", "-1"]),
    ],
)
def test_a_bad_option_names_the_rule_and_the_value(small, capsys, options, words):
    assert command_line.main(["simulate", str(small), *options]) == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message


def test_an_unknown_policy_is_a_usage_error_with_status_2(small):
    result = run("simulate", small, "--policy", "psychic")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "'continuous', 'static'" in result.stderr or "continuous" in result.stderr


def test_a_missing_file_is_named(tmp_path, capsys):
    assert command_line.main(["simulate", str(tmp_path / "nowhere.csv")]) == 2
    assert "nowhere.csv" in capsys.readouterr().err


def test_a_worked_number_is_explained_and_a_wrong_id_gets_a_hint(capsys):
    assert command_line.main(["worked", "batching-two-slot-static"]) == 0
    assert "2/3" in capsys.readouterr().out
    assert command_line.main(["worked", "batching-two-slot-statik"]) == 2
    assert "batching-two-slot-static" in capsys.readouterr().err


def test_the_explanation_of_a_worked_number_says_all_that_is_known(capsys):
    assert command_line.main(["worked", "latency-timeline-row-3-tpot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for start in (
        "latency-",
        "  given ",
        "  formula ",
        "  result ",
        "  wrong ",
        "  covered in 01-one-request",
    ):
        assert any(line.startswith(start) for line in lines), start
    assert "source A" in lines[0]


def test_without_an_id_all_worked_numbers_are_computed_again(capsys):
    assert command_line.main(["worked"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "batching    17 ok"
    assert lines[-1] == "156 of 156 formulas give what is recorded"


def test_a_worked_number_that_differs_is_named_and_the_status_is_1(capsys, monkeypatch):
    changed = replace(entry("cost-drain-serial"), formula="dict(cost=1)")
    monkeypatch.setattr(recompute, "entry", lambda id: changed if id == changed.id else entry(id))
    assert command_line.main(["worked"]) == 1
    output = capsys.readouterr().out
    assert "\ncost         3 ok\n  cost-drain-serial: cost is computed as 1, recorded as " in output
    assert output.endswith("155 of 156 formulas give what is recorded\n")
    assert command_line.main(["worked", "cost-drain-serial"]) == 1
    assert "cost-drain-serial: cost is computed as 1" in capsys.readouterr().out


def test_the_ids_of_all_worked_numbers_are_listed(capsys):
    assert command_line.main(["worked", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 310


@pytest.mark.parametrize("arguments", ["worked --list", "exercises --answers", "exercises"])
def test_a_reader_who_has_seen_enough_gets_no_error(arguments):
    command = [sys.executable, "-m", "lab", *arguments.split()]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_model_goes_on_after_a_text_and_the_same_call_gives_the_same(capsys):
    options = ["It is a truth", "--max-tokens", "12", "--seed", "3"]
    texts = []
    for more in ([], [], ["--temperature", "0"], ["--top-k", "1"], ["--stop", "e"]):
        assert command_line.main(["generate", *options, *more]) == 0
        texts.append(capsys.readouterr().out)
    assert (
        texts[0]
        == texts[1]
        == lab.generate(
            "It is a truth", max_tokens=12, sampling=lab.Sampling(temperature=0.8, seed=3)
        )
        + "\n"
    )
    assert texts[2] == texts[3] != texts[0]
    assert texts[4] == texts[0].partition("e")[0] + "\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "--model", "nowhere"], "nowhere is neither a folder nor one of tiny"),
        (["a", "--max-tokens", "9999"], "positions, and the model has 512"),
        (["a", "--temperature", "-1"], "temperature must be at least 0, got -1"),
        (["a", "--stop", ""], "a stop text must hold at least 1 character"),
        ([""], "the prompt must hold at least 1 token, got 0"),
    ],
)
def test_a_text_that_cannot_be_made_is_one_line_and_status_2(capsys, options, words):
    assert command_line.main(["generate", *options]) == 2
    output = capsys.readouterr()
    assert words in output.err
    assert len(output.err.splitlines()) == 1
    assert output.out == ""


def test_without_the_packages_of_the_live_engine_it_is_said_how_to_get_them():
    command = [sys.executable, "-I", "-S", "-c"]
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import lab.__main__ as m; "
    code += "sys.exit(m.main(['generate', 'It is']))"
    result = subprocess.run([*command, code], capture_output=True, text=True, timeout=50)
    assert result.returncode == 2
    assert result.stderr == (
        "lab: a live model needs torch, which is not installed: pip install -r requirements.txt\n"
    )


def test_all_exercises_are_listed_with_their_chapter(capsys):
    assert command_line.main(["exercises"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(maxsplit=2) == ["0", "reading-side-by-side", "Side by side"]
    assert [line.split()[1] for line in lines] == [one.id for one in exercises()]


def test_a_chapter_or_an_id_is_asked_without_its_answers(capsys):
    assert command_line.main(["exercises", "2"]) == 0
    chapter = capsys.readouterr().out
    assert command_line.main(["exercises", "batching-idle-seats"]) == 0
    one = capsys.readouterr().out
    assert one.startswith("Idle seats  (batching-idle-seats, variant 0)\n\nA server has two seats")
    assert one.strip() in chapter
    assert "Answer:" not in chapter
    assert "Worked:" not in chapter


def test_a_seed_chooses_one_of_twelve_variants(capsys):
    outputs = []
    for seed in ("5", "17", "6"):
        assert command_line.main(["exercises", "batching-idle-seats", "--seed", seed]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert "variant 5" in outputs[0]


def test_the_key_of_all_exercises_is_the_one_an_instructor_has_printed(capsys):
    assert command_line.main(["exercises", "--answers", "--seed", "5"]) == 0
    # Written anew by the same command, with its output sent to the file
    golden = ROOT / "tests" / "golden" / "exercises_seed_5.txt"
    assert capsys.readouterr().out == golden.read_text(encoding="utf-8")


def test_an_unknown_exercise_gets_a_hint(capsys):
    assert command_line.main(["exercises", "batching-idle-seat"]) == 2
    assert "nearest: batching-idle-seats" in capsys.readouterr().err
    assert command_line.main(["exercises", "99"]) == 2
    assert "chapter 99 has no exercises" in capsys.readouterr().err


def test_the_doctor_says_what_works(capsys):
    assert command_line.main(["doctor"]) == 0
    assert "the core: ready" in capsys.readouterr().out


def test_a_measured_number_can_name_its_day_and_its_machine():
    day, *rest = lab.machine().split(", ")
    assert date.fromisoformat(day) <= date.today()
    assert any(part.endswith(" cores") for part in rest)
    assert rest[-1].split()[0] in ("torch", "Python")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name",
    [
        "AzureLLMInferenceTrace_code.csv",
        "AzureLLMInferenceTrace_conv.csv",
        "mooncake_conversation_trace.jsonl",
        "mooncake_synthetic_trace.jsonl",
    ],
)
def test_a_public_trace_runs(name, capsys):
    if not (PUBLIC / name).is_file():
        pytest.skip(f"the public trace {name} is not here")
    assert command_line.main(["simulate", str(PUBLIC / name), "--limit", "2000"]) == 0
    assert "running" in capsys.readouterr().out


def test_calibrate_says_how_to_use_what_it_found(capsys) -> None:
    assert command_line.main(["calibrate", "--seconds", "0.2", "--seats", "3"]) == 0
    said = capsys.readouterr().out
    assert "a prefill token" in said
    *_, last = said.splitlines()
    command, costs = last.split(" --affine ")
    assert command == "python -m lab simulate TRACE --seats 3"
    assert len([float(cost) for cost in costs.split()]) == 4
    assert command_line.main(["calibrate", "--seconds", "0"]) == 2
    assert "seconds must be above 0, got 0" in capsys.readouterr().err
