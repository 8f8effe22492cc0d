"""Writes lab/worked_numbers.json, which `lab` reads without PyYAML, from book/worked_numbers.yaml.

Run it after every change of the YAML, and of the ids that a notebook names: `make worked`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from book.coverage import Coverage, of_book

ROOT = Path(__file__).resolve().parent.parent
JSON_FILE = ROOT / "lab" / "worked_numbers.json"

ENTRY_FIELDS = (
    *("id", "source", "section", "kind", "origin", "statement"),
    *("inputs", "expected", "wrong", "disputed", "correct", "note"),
)


def as_json(root: Path = ROOT) -> str:
    """The ledger of the book below `root` as JSON: the order of the YAML, one entry a line.

    A `check` is called `formula` there, and `where` says which chapters cover an entry. Sources
    are named by their letters. ValueError for a number that JSON cannot hold (infinite, not a
    number).
    """
    text = (root / "book" / "worked_numbers.yaml").read_text(encoding="utf-8")
    ledger = yaml.safe_load(text)
    coverage = of_book(root, {raw["id"]: raw["check"] is not None for raw in ledger["entries"]})
    letters = {source["file"]: source["letter"] for source in ledger["meta"]["sources"]}
    groups = {
        "entries": [_slim(raw, letters, coverage) for raw in ledger["entries"]],
        "conflicts": [_lettered(raw, letters) for raw in ledger["conflicts"]],
        "ambiguities": [_lettered(raw, letters) for raw in ledger["ambiguities"]],
    }
    members = (f'"{name}": {_lines(rows)}' for name, rows in groups.items())
    return "{\n" + ",\n".join(members) + "\n}\n"


def _slim(raw: dict[str, Any], letters: dict[str, str], coverage: Coverage) -> dict[str, Any]:
    kept = {field: raw[field] for field in ENTRY_FIELDS if raw.get(field) is not None}
    number = raw["source"].partition("_")[0]
    kept["section"] = raw["section"].replace(f"{number} ", "")  # the entry names its own source
    kept = {field: _lettered(value, letters) for field, value in kept.items() if field != "id"}
    formula = {} if raw["check"] is None else {"formula": raw["check"]}
    return {"id": raw["id"]} | kept | formula | {"where": coverage.where(raw["id"])}


def _lettered(value: Any, letters: dict[str, str]) -> Any:
    """A copy that names each source by its letter, not by its file or the number of its file."""
    if isinstance(value, list):
        return [_lettered(item, letters) for item in value]
    if isinstance(value, dict):
        keep = ("id", "entries")
        return {k: v if k in keep else _lettered(v, letters) for k, v in value.items()}
    if not isinstance(value, str) or value in letters:
        return letters.get(value, value)
    for file, letter in letters.items():
        number = file.partition("_")[0]
        value = re.sub(rf"(?<![\w.,-]){number}(?!\w)", f"source {letter}", value)
    return value


def _lines(rows: list[Any]) -> str:
    dumped = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    return "[\n" + ",\n".join(dumped) + "\n]"


def main() -> None:
    """Write the file."""
    JSON_FILE.write_text(as_json(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
