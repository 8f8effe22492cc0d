"""The novels out of R's file: titles, paragraphs, chapters, and what is held out."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from small_corpus import novel, r_database, r_strings, write

from lab.model.tiny.corpus import HELD_OUT_BYTES, novels


def test_every_novel_is_found_and_nothing_else(tmp_path: Path) -> None:
    assert [one.title for one in novels(write(tmp_path / "Rdata.rdb"))] == ["First", "Second Book"]


def test_the_end_of_each_is_held_out_and_nothing_is_lost(tmp_path: Path) -> None:
    first, _ = novels(write(tmp_path / "Rdata.rdb"))
    held_out = "\n\n".join(first.held_out)
    assert HELD_OUT_BYTES - 12 < len(held_out) <= HELD_OUT_BYTES
    words = " ".join(novel("FIRST", 0)).split()
    assert " ".join((*first.training, *first.held_out)).split() == words


def test_lines_are_joined_and_paragraphs_are_not(tmp_path: Path) -> None:
    first, _ = novels(write(tmp_path / "Rdata.rdb"))
    assert first.training[0] == "FIRST\n\nBy Nobody"
    heading, paragraph, *_ = first.training[1].split("\n\n")
    assert heading == "CHAPTER 1"
    assert len(paragraph.split()) == 6 * 12


def test_a_chapter_is_a_document(tmp_path: Path) -> None:
    first, _ = novels(write(tmp_path / "Rdata.rdb"))
    assert all(text.startswith("CHAPTER") for text in first.training[1:])
    assert all(text.startswith("CHAPTER") for text in first.held_out[1:])


def test_what_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"Rdata\.rdb is not there; .*corpus\.py says how to fetch"
    ):
        novels(tmp_path / "Rdata.rdb")
    broken = r_strings(["a", "b"])[:-9] + struct.pack(">ii", 0x0D, 1) + b"b"
    (tmp_path / "Rdata.rdb").write_bytes(r_database([broken]))
    with pytest.raises(ValueError, match=r"expected a string \(kind 9\) in the R data, got 13"):
        novels(tmp_path / "Rdata.rdb")
