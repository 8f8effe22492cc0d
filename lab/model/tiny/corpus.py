"""Jane Austen's six novels, read from a package of R data, as documents for a small model.

The novels are in the public domain. Debian's package `r-cran-janeaustenr` holds them, and these
two commands fetch it; nothing is installed, and R is not needed:

    apt-get download r-cran-janeaustenr
    dpkg -x r-cran-janeaustenr_*.deb corpus

The text then lies in corpus/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

HELD_OUT_BYTES = 40_000  # at the end of each novel
_STRINGS, _STRING = 16, 9  # how R's serialization numbers a vector of strings and a string
_HEADER = 14  # format, its version, R's version, R's oldest version that can read it
_CHAPTER = re.compile(r"(?:CHAPTER|Chapter|VOLUME) [IVXL\d]+")


class Novel(NamedTuple):
    """One novel in two parts. A document is a chapter; paragraphs are parted by an empty line."""

    title: str
    training: tuple[str, ...]
    held_out: tuple[str, ...]
    """The last 40 kB. Its first document begins in the middle of a chapter."""


def novels(rdb: Path) -> tuple[Novel, ...]:
    """The novels in the file Rdata.rdb. ValueError if it is not there or holds something else."""
    if not rdb.is_file():
        raise ValueError(f"{rdb} is not there; lab/model/tiny/corpus.py says how to fetch it")
    return tuple(_novel(_strings(data)) for data in _objects(rdb.read_bytes()) if _holds_text(data))


def _objects(data: bytes) -> Iterator[bytes]:
    """The objects of an R database, one after the other: a length of 4 bytes, then zlib."""
    while data:
        packed = zlib.decompressobj()
        yield packed.decompress(data[4:])
        data = packed.unused_data


def _body(data: bytes) -> int:
    """Where the object begins: behind the header and the name of the encoding."""
    (length,) = struct.unpack_from(">i", data, _HEADER)
    return _HEADER + 4 + int(length)


def _holds_text(data: bytes) -> bool:
    return data[:2] == b"X\n" and struct.unpack_from(">i", data, _body(data))[0] & 255 == _STRINGS


def _strings(data: bytes) -> list[str]:
    """A vector of strings: its length, then for each string its kind, its length and its bytes."""
    at = _body(data) + 8
    (count,) = struct.unpack_from(">i", data, at - 4)
    found = []
    for _ in range(count):
        kind, length = struct.unpack_from(">ii", data, at)
        if kind & 255 != _STRING:
            raise ValueError(f"expected a string (kind {_STRING}) in the R data, got {kind & 255}")
        found.append(data[at + 8 : at + 8 + length].decode())
        at += 8 + length
    return found


def _novel(lines: list[str]) -> Novel:
    text = "\n\n".join(_paragraphs(lines))
    cut = len(text) - HELD_OUT_BYTES
    cut = text.index(" ", cut) + 1  # not inside a word
    return Novel(lines[0].strip().title(), _chapters(text[:cut]), _chapters(text[cut:]))


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Lines put together again: where they end was the printer's choice, not the author's."""
    for is_text, group in groupby((line.strip() for line in lines), bool):
        if is_text:
            yield re.sub(r"\s+", " ", " ".join(group))


def _chapters(text: str) -> tuple[str, ...]:
    """Documents: each begins with the heading of a chapter or a volume, or where the text does."""
    paragraphs = text.split("\n\n")
    starts = [n for n, words in enumerate(paragraphs) if n and _CHAPTER.match(words)]
    bounds = zip([0, *starts], [*starts, len(paragraphs)], strict=True)
    return tuple("\n\n".join(paragraphs[a:b]) for a, b in bounds)
