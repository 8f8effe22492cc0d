"""The ledger's own checks run, agree with `worked`, and every changed value is noticed.

The YAML is the source: each entry's `check` computes its results from its inputs, and `worked`
compares them with the JSON that `lab` ships, where it is called `formula`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from book.worked_numbers_json import as_json
from lab.recompute import recompute
from lab.worked_numbers import (
    WorkedNumber,
    WorkedNumberError,
    checked,
    describe,
    entries,
    entry,
    worked,
)

ROOT = Path(__file__).resolve().parent.parent
YAML_FILE = ROOT / "book" / "worked_numbers.yaml"
JSON_FILE = ROOT / "lab" / "worked_numbers.json"
LEDGER: list[dict[str, Any]] = yaml.safe_load(YAML_FILE.read_text(encoding="utf-8"))["entries"]
CHECKED = [raw for raw in LEDGER if raw["check"] is not None]
BY_ID = {raw["id"]: raw for raw in LEDGER}


def arguments(id: str, results: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """`results` sorted into the value and the keywords of a call of `worked`."""
    raw = BY_ID[id]
    value, wrong = (
        {name: results[name] for name in raw[part] or {}} for part in ("expected", "wrong")
    )
    return bare(value), {"wrong": bare(wrong)} if wrong else {}


def bare(named: dict[str, Any]) -> Any:
    return next(iter(named.values())) if len(named) == 1 else named


def changed(value: Any) -> Iterator[Any]:
    """Copies of a value, each different in one place."""
    if isinstance(value, bool):
        yield not value
        yield int(value)
    elif value is None:
        yield 0
    elif isinstance(value, str):
        yield f"{value}x"
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from ({**value, name: other} for other in changed(part))
        yield {**value, "extra": 0}
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            for other in changed(part):
                yield [*value[:place], other, *value[place + 1 :]]
        yield [*value, 0]
    else:
        yield value + (abs(value) / 50 if value else Fraction(1, 10**6))
        yield -value if value else 1
        yield str(value)
        yield math.nan


@pytest.mark.parametrize("id", [raw["id"] for raw in CHECKED])
def test_the_check_of_an_entry_gives_what_is_recorded(id: str) -> None:
    value, wrong = arguments(id, recompute(id))
    assert isinstance(worked(id, value, **wrong), WorkedNumber)


@pytest.mark.parametrize("id", [raw["id"] for raw in CHECKED])
def test_every_change_of_a_value_is_noticed(id: str) -> None:
    results = recompute(id)
    assert set(results) == {*(BY_ID[id]["expected"] or {}), *(BY_ID[id]["wrong"] or {})}
    for name, right in results.items():
        for other in changed(right):
            value, wrong = arguments(id, results | {name: other})
            with pytest.raises(WorkedNumberError, match=f"{id}: .* {name} is computed as "):
                worked(id, value, **wrong)


def test_a_changed_record_is_noticed() -> None:
    tried = 0
    for raw in CHECKED:
        for name, result in (entry(raw["id"]).expected | entry(raw["id"]).wrong).items():
            right = recompute(raw["id"])[name]
            for other in changed(result.value):
                if isinstance(other, float):
                    continue
                tried += 1
                assert not result_with(result, value=other).is_met_by(right), (raw["id"], name)
            if result.printed is not None:
                off = result.printed + result.printed / 50
                assert not result_with(result, printed=off).is_met_by(right), (raw["id"], name)
    assert tried > 1000


def result_with(result: Any, **changes: Any) -> Any:
    fields = {name: getattr(result, name) for name in result.__dataclass_fields__}
    return type(result)(**fields | changes)


def test_the_json_is_built_from_the_yaml_and_the_chapters() -> None:
    text = as_json()
    assert JSON_FILE.read_text(encoding="utf-8") == text, "make worked"
    assert len(text.encode()) < 400_000


def test_the_json_keeps_every_entry_in_order_and_every_check_as_its_formula() -> None:
    shipped = json.loads(JSON_FILE.read_text(encoding="utf-8"))
    assert list(entries()) == [raw["id"] for raw in LEDGER]
    assert [raw.get("formula") for raw in shipped["entries"]] == [raw["check"] for raw in LEDGER]
    document = yaml.safe_load(YAML_FILE.read_text(encoding="utf-8"))
    for group in ("conflicts", "ambiguities"):
        assert [raw["id"] for raw in shipped[group]] == [raw["id"] for raw in document[group]]
        assert [raw["entries"] for raw in shipped[group]] == [
            raw["entries"] for raw in document[group]
        ]


def test_the_json_names_sources_by_their_letters_alone() -> None:
    text = JSON_FILE.read_text(encoding="utf-8")
    assert re.search(r"_[0-9a-f]{16}", text) is None
    ids = {raw["id"] for raw in LEDGER}
    told = re.sub(r'"[a-z0-9-]+"', lambda found: "" if found[0][1:-1] in ids else found[0], text)
    assert re.findall(r".{9}(?<![\w.,-])00[023](?!\w).{9}", told) == []
    assert entry("latency-tpot-formula-002").section == "6.1"
    assert entry("batching-static-vs-continuous-definition").section.endswith(
        "source B 6.5; source C 31.6"
    )


def test_an_entry_says_where_it_is_covered() -> None:
    assert entry("batching-two-slot-static").where == "covered in 02-batching"
    waiting = [id for id in entries() if entry(id).where.startswith("not yet written: ")]
    covered = [id for id in entries() if entry(id).where.startswith("covered in ")]
    assert len(waiting) + len(covered) <= len(entries())
    assert "  covered in 02-batching" in describe("batching-two-slot-static").splitlines()


def test_an_unknown_id_names_its_neighbours() -> None:
    with pytest.raises(
        ValueError, match=r"unknown worked number 'kv-worked-2gib' .*kv-worked-1gib"
    ):
        worked("kv-worked-2gib", 1)
    with pytest.raises(ValueError, match=r"unknown worked number '§' among 310$"):
        entry("§")


def test_missing_and_extra_names_are_named() -> None:
    right = {"bytes": 2**30, "log2": 30, "gib": 1}
    assert worked("kv-worked-1gib", right)
    with pytest.raises(ValueError, match="missing: log2; extra: none"):
        worked("kv-worked-1gib", {"bytes": 2**30, "gib": 1})
    with pytest.raises(ValueError, match="missing: none; extra: mib"):
        worked("kv-worked-1gib", right | {"mib": 1024})
    with pytest.raises(ValueError, match="needs a mapping with the names bytes, log2, gib, got 1"):
        worked("kv-worked-1gib", 1)


def test_a_single_result_is_given_bare() -> None:
    assert worked("kv-worked-mha-4gib", 4)
    with pytest.raises(WorkedNumberError, match=r"computed as \{'gib': 4\}, recorded as 4 GiB"):
        worked("kv-worked-mha-4gib", {"gib": 4})


def test_a_wrong_result_is_asked_for_and_compared() -> None:
    right = {"tpot": 20, "intervals": 3}
    assert worked("latency-timeline-row-3-tpot", right, wrong=45)
    with pytest.raises(ValueError, match="pass wrong=, what the mistaken method gives, for"):
        worked("latency-timeline-row-3-tpot", right)
    with pytest.raises(WorkedNumberError, match=r"wrong .* is computed as 44, recorded as 45 ms"):
        worked("latency-timeline-row-3-tpot", right, wrong=44)
    with pytest.raises(ValueError, match="records no wrong results, got 5"):
        worked("kv-worked-mha-4gib", 4, wrong=5)


def test_a_rule_is_covered_by_text() -> None:
    with pytest.raises(ValueError, match="is a rule without a computed result: it is covered by t"):
        worked("kv-why-cache", True)
    with pytest.raises(ValueError, match="covered by text"):
        worked("kv-knobs", ["KV precision -> b"])


def test_floats_meet_exact_values_within_one_in_a_million_million() -> None:
    assert worked("kv-one-byte-elements", 0.5)
    assert worked("kv-one-byte-elements", 0.5 * (1 + 1e-13))
    with pytest.raises(WorkedNumberError):
        worked("kv-one-byte-elements", 0.5 * (1 + 1e-11))
    with pytest.raises(WorkedNumberError):
        worked("kv-one-byte-elements", Fraction(1, 2) + Fraction(1, 10**15))
    for other in (math.inf, math.nan, "0.5", True, None, Decimal("0.5"), [0.5]):
        with pytest.raises(WorkedNumberError):
            worked("kv-one-byte-elements", other)


def test_a_float_meets_a_recorded_zero_only_as_zero() -> None:
    right = {"s": 0.0, "general_formula_fails": True}
    id = "quant-constant-tensor-division-by-zero"
    assert worked(id, right["general_formula_fails"], wrong=right["s"])
    with pytest.raises(WorkedNumberError):
        worked(id, True, wrong=1e-300)


def test_a_tolerance_holds_for_floats_and_fractions() -> None:
    id = "roofline-20gb-decimal-vs-binary"
    right = {"gib_over_tb": 21.474836480, "gb_over_tib": Fraction("18.19")}
    assert worked(id, right)
    with pytest.raises(WorkedNumberError):
        worked(id, right | {"gib_over_tb": 21.481})


def test_a_printed_form_does_not_loosen_the_value() -> None:
    id = "prefill-causal-order-unchanged"
    assert worked(id, Fraction(16386, 4097))
    assert worked(id, 16386 / 4097)
    with pytest.raises(WorkedNumberError, match=r"16386/4097 times \(about 3.9995\)"):
        worked(id, 3.9995)


def test_lists_and_tuples_are_the_same_and_booleans_are_no_numbers() -> None:
    assert worked("kv-linear-factors", (2, 2, 2.0, Fraction(2)))
    assert worked("kv-linear-factors", [2, 2, 2, 2])
    for other in ([2, 2, 2], {2}, range(4)):
        with pytest.raises(WorkedNumberError):
            worked("kv-linear-factors", other)
    with pytest.raises(WorkedNumberError):
        worked("roofline-arithmetic-intensity-002", True)


def test_inputs_are_exact_and_belong_to_the_caller() -> None:
    given = entry("decode-gqa-kv-projection").inputs
    given["H_kv"].append(0)
    assert entry("decode-gqa-kv-projection").inputs["H_kv"] == [32, 8, 1]
    first = entry("quant-constant-tensor-division-by-zero").inputs
    assert first["xmin"] == Fraction(7, 10)


def test_the_text_form_is_one_quiet_line() -> None:
    result = recompute("batching-two-slot-static")
    row = worked("batching-two-slot-static", result)
    expected = "finish_A 2 step, finish_B 4 step, ..., occupancy 2/3; ok"
    assert repr(row) == f"batching-two-slot-static: {expected}"
    row = worked("latency-timeline-row-3-tpot", {"tpot": 20, "intervals": 3}, wrong=45)
    assert repr(row) == (
        "latency-timeline-row-3-tpot: tpot 20 ms, intervals 3 interval; not 45 ms; ok"
    )
    assert repr(worked("prefill-mlp-macs", 554050781184)).endswith(": 554,050,781,184 MAC; ok")


@pytest.mark.parametrize("id", [raw["id"] for raw in CHECKED])
def test_every_text_form_is_short(id: str) -> None:
    value, wrong = arguments(id, recompute(id))
    line = repr(worked(id, value, **wrong))
    assert "\n" not in line
    assert len(line) < 300


def test_the_html_form_is_escaped() -> None:
    row = WorkedNumber(id="a-<b>", results=("1 < 2 & 3",), wrong_results=())
    page = row._repr_html_()
    assert "a-&lt;b&gt;" in page
    assert "1 &lt; 2 &amp; 3" in page
    assert page.count("<div") == page.count("</div>") == 1


def test_a_description_says_everything() -> None:
    text = describe("latency-c-zero-tpot-is-fiction")
    assert "(counterexample; source C, 31.2)" in text
    assert "given   tpot_serial = [40, 40, none] ms" in text
    assert "result  mean_serial = 40 ms" in text
    assert "wrong   mean_serial_with_zero = 80/3 ms (about 26.67)" in text
    assert "covered by text" in describe("kv-why-cache")


def test_a_disputed_statement_comes_with_the_right_one() -> None:
    text = describe("quant-constant-tensor-division-by-zero")
    assert "disputed: the source's statement does not hold as written" in text
    assert "correct where_the_division_by_zero_happens: in xmin/s" in text


def test_every_entry_can_be_described() -> None:
    assert all(describe(id).startswith(id) for id in entries())


def test_checked_numbers_are_a_line_each_and_on_a_page_one_fold():
    number = worked("batching-a100-b5-narrative", 95)
    both = checked(number, number)
    assert repr(both) == f"{number!r}\n{number!r}"
    assert (
        "<summary>2 numbers agree with the ledger of worked numbers</summary>" in both._repr_html_()
    )
    assert both._repr_html_().count("worked-number") == 2
