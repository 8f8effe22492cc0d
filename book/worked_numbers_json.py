"""Writes lab/worked_numbers.json, which `lab` reads without PyYAML, from book/worked_numbers.yaml.

Run it after every change of the YAML: python book/worked_numbers_json.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
YAML_FILE = ROOT / "book" / "worked_numbers.yaml"
JSON_FILE = ROOT / "lab" / "worked_numbers.json"

ENTRY_FIELDS = (
    *("id", "source", "section", "kind", "origin", "statement"),
    *("inputs", "expected", "wrong", "disputed", "correct", "note"),
)


def as_json(yaml_text: str) -> str:
    """The ledger as JSON: the order of the YAML, one entry a line, ending with a newline.

    A `check` is Python code of the ledger itself and stays behind; `checked` says whether there
    was one. ValueError for a number that JSON cannot hold (infinite, not a number).
    """
    ledger = yaml.safe_load(yaml_text)
    groups = {
        "sources": ledger["meta"]["sources"],
        "entries": [_slim(entry) for entry in ledger["entries"]],
        "conflicts": ledger["conflicts"],
        "ambiguities": ledger["ambiguities"],
    }
    members = (f'"{name}": {_lines(rows)}' for name, rows in groups.items())
    return "{\n" + ",\n".join(members) + "\n}\n"


def _slim(entry: dict[str, Any]) -> dict[str, Any]:
    kept = {field: entry[field] for field in ENTRY_FIELDS if entry.get(field) is not None}
    return kept | {"checked": entry["check"] is not None}


def _lines(rows: list[Any]) -> str:
    dumped = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    return "[\n" + ",\n".join(dumped) + "\n]"


def main() -> None:
    """Write the file."""
    text = as_json(YAML_FILE.read_text(encoding="utf-8"))
    JSON_FILE.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
