"""Two made-up novels in the form in which R keeps them."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

SENTENCE = "she was not at all sorry to have walked so far with him and said so to her sister"


def r_strings(lines: list[str]) -> bytes:
    """A vector of strings as R serializes it: format X, version 3, UTF-8."""
    head = b"X\n" + struct.pack(">iiii", 3, 0x040201, 0x030500, 5) + b"UTF-8"
    body = struct.pack(">ii", 16, len(lines))
    for line in lines:
        body += struct.pack(">ii", 0x00040009, len(line.encode())) + line.encode()
    return head + body


def r_database(objects: list[bytes]) -> bytes:
    """Objects one after the other, each with its length and packed."""
    return b"".join(struct.pack(">i", len(data)) + zlib.compress(data) for data in objects)


def novel(title: str, seed: int, chapters: int = 6) -> list[str]:
    """Lines of a novel, parted by empty ones, long enough that 40 kB can be held out."""
    dice = random.Random(seed)
    lines = [title, "", "By Nobody", "", ""]
    for number in range(1, chapters + 1):
        lines += [f"CHAPTER {number}", ""]
        for _ in range(30):
            lines += [" ".join(dice.choices(SENTENCE.split(), k=12)) for _ in range(6)] + [""]
    return lines


def write(file: Path) -> Path:
    """The file Rdata.rdb, with something else in it as well."""
    texts = [r_strings(novel(title, seed)) for seed, title in enumerate(("FIRST", "SECOND BOOK"))]
    symbols = b"X\n" + struct.pack(">iiii", 3, 0, 0, 5) + b"UTF-8" + struct.pack(">i", 254)
    file.write_bytes(r_database([*texts, symbols]))
    return file
