"""The list of references can be read: every entry is whole, and none has the key of another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BIB = (Path(__file__).parents[1] / "book" / "references.bib").read_text(encoding="utf-8")
HEAD = re.compile(r"^@(\w+)\{([\w-]+),\n", re.MULTILINE)
FIELD = re.compile(r"  \w+ *= \{.+\},?")


def broken(bib: str) -> list[str]:
    """What is wrong with a list of references, entry by entry."""
    found, keys = [], [key for _, key in HEAD.findall(bib)]
    found += [f"{key} is there twice" for key in set(keys) if keys.count(key) > 1]
    entries = re.split(r"^(?=@)", bib, flags=re.MULTILINE)[1:]
    for entry in entries:
        head, *lines, last = entry.rstrip().splitlines()
        if not HEAD.match(f"{head}\n") or last != "}" or entry.count("{") != entry.count("}"):
            found.append(f"{head} is not whole")
        for place, line in enumerate(lines, 1):
            is_last = place == len(lines)
            if not FIELD.fullmatch(line) or line.count("{") != line.count("}"):
                found.append(f"{head} has {line!r}")
            elif line.endswith(",") == is_last:
                found.append(f"{head} has a comma too many or too few in {line!r}")
    return found


def test_every_entry_of_the_references_is_whole() -> None:
    assert len(HEAD.findall(BIB)) > 40
    assert broken(BIB) == []


@pytest.mark.parametrize(
    ("good", "bad"),
    [("\n}\n\n@", "\n\n@"), ("},\n", "}\n"), ("@inproceedings{orca,", "@inproceedings{vllm,")],
)
def test_an_entry_that_is_not_whole_is_found(good: str, bad: str) -> None:
    assert broken(BIB.replace(good, bad, 1))
