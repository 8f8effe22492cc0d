"""`python -m kernels report [--json]`: the Triton kernels compiled for chips that are not here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from kernels.choice import compiled

if compiled is not None:
    from kernels import report


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 2, with one line that says why, where it cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("report", help="registers, spills, shared memory, matrix units")
    command.add_argument("--json", action="store_true", help="one object a kernel and chip")
    options = parser.parse_args(arguments)
    if compiled is None:
        print("the report needs Triton, which exists for Linux only", file=sys.stderr)
        return 2
    if compiled.INTERPRETED:
        print("the report compiles the kernels: unset TRITON_INTERPRET", file=sys.stderr)
        return 2
    rows = [row._asdict() for row in report.rows()]
    print(as_json(rows) if options.json else report.table(rows))
    return 0


def as_json(rows: Sequence[Mapping[str, object]]) -> str:
    """The report as it is kept in `reported.json`: the compiler's version, and a row a line."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{{"triton": "{version("triton")}", "rows": [\n{lines}\n]}}'


if __name__ == "__main__":
    sys.exit(main())
