"""Starts the processes of a parallel run, from a notebook too, and leaves none of them behind."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from lab.clock import WallClock
from lab.ledgers.sizes import Number
from lab.ledgers.table import Shown, Table
from lab.parallel.mesh import Mesh

LOOK_EVERY_S = 0.02
TAIL_LINES = 12
FIRST = "failed-first"
"""The file in which the first rank that fails writes its number."""
WATCHED = "watched"
"""Told to a process that is to end with the one that has started it."""
PLANS = "plans"
"""The axis of what is told to everybody, such as what a step computes: no numbers of the model."""


class RankFailed(RuntimeError):
    """A rank ended before its work was done. The message names it and ends with its log."""


class Calls(NamedTuple):
    """The calls of one kind that a rank made along one axis of the mesh."""

    axis: str
    kind: str
    algorithm: str
    """"library": the library chose, and does not say how many bytes it moved."""
    times: int
    payload_bytes: int
    sent_bytes: Number
    """Counted as they went out; of the library's collectives by the formula of a ring."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a rank says at its end."""

    rank: int
    value: Any
    """What the function returned there."""
    held: Mapping[str, int]
    """Bytes that it held, by what they were: "parameters", "KV", "optimizer", ..."""
    calls: tuple[Calls, ...]
    log: str = ""
    """Everything that it printed."""

    @property
    def sent_bytes(self) -> Number:
        """Bytes of numbers that it sent; plans are not counted."""
        return sum(calls.sent_bytes for calls in self.calls if calls.axis != PLANS)


@dataclass(frozen=True, slots=True, repr=False)
class Launch(Shown):
    """A run of several processes that has come to its end."""

    mesh: Mesh
    reports: tuple[Report, ...]
    seconds: float
    """From the start of the first process to the end of the last: mostly, that Python and torch
    are loaded."""

    @property
    def values(self) -> tuple[Any, ...]:
        """What the function returned on each rank."""
        return tuple(report.value for report in self.reports)

    def table(self) -> Table:
        """A row a rank: the bytes it held, and the bytes it sent."""
        held = tuple(dict.fromkeys(name for report in self.reports for name in report.held))
        rows = tuple(
            (report.rank, *(report.held.get(name, 0) for name in held), report.sent_bytes)
            for report in self.reports
        )
        columns = ("rank", *(f"{name} (bytes)" for name in held), "sent (bytes)")
        return Table(columns, rows, f"{self.mesh.ranks} processes, bytes held and sent")

    def traffic(self) -> Table:
        """A row for each rank, axis and kind of call: how often, and how much."""
        columns = ("rank", "axis", "call", "by", "times", "payload (bytes)", "sent (bytes)")
        rows = tuple((report.rank, *calls) for report in self.reports for calls in report.calls)
        return Table(columns, rows, f"{self.mesh.ranks} processes, what each called")


class Task(NamedTuple):
    """What every rank of a run is told; `call` takes its `World`."""

    call: Callable[..., Any] | None
    file: str | None
    mesh: Mesh
    timeout_s: float


def launch(
    program: Callable[..., Any] | str | os.PathLike[str],
    mesh: Mesh | int,
    *,
    timeout_s: float = 120,
    folder: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Launch:
    """Run `program` in one process for each rank of `mesh`, and wait for them.

    A function gets the rank's `lab.parallel.world.World` and the `settings`; it must stand in a
    file, since a process of its own cannot import a cell. A path is a file that is run as it is,
    with RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT set as torchrun
    sets them; of it only the logs are reported. A number in place of a mesh is that many ranks
    of dp.

        lab.launch(training.train, 2, steps=5, stage=3)      lab.launch("my_ranks.py", 2)

    Logs are kept in `folder`, or of a run that fails in a new one that the error names. RankFailed,
    with the end of its log, as soon as a rank dies or raises; TimeoutError, with the places where
    all were, after `timeout_s` seconds. However a run ends, none of its processes is left, nor
    any that a rank has started. ValueError for a function that a process cannot import, and for
    settings that cannot be sent.
    """
    mesh = Mesh(dp=mesh) if isinstance(mesh, int) else mesh
    task = _task(program, mesh, timeout_s, settings)
    where = Path(mkdtemp(prefix="ranks-") if folder is None else folder)
    where.mkdir(parents=True, exist_ok=True)
    (where / "task").write_bytes(task)
    clock = WallClock()
    with _started(mesh.ranks, where) as processes:
        _watch(processes, where, clock, timeout_s)
    reports = tuple(_report(where, rank, callable(program)) for rank in range(mesh.ranks))
    if folder is None:
        for file in where.iterdir():
            file.unlink()
        where.rmdir()
    return Launch(mesh, reports, clock.now())


def _task(
    program: Callable[..., Any] | str | os.PathLike[str],
    mesh: Mesh,
    timeout_s: float,
    settings: Mapping[str, Any],
) -> bytes:
    if not callable(program):
        if not Path(program).is_file():
            raise ValueError(
                f"{os.fspath(program)} is not there: a program is a file or a function"
            )
        if settings:
            raise ValueError(f"a file takes no settings, got {', '.join(settings)}")
        return pickle.dumps(Task(None, str(Path(program).resolve()), mesh, timeout_s))
    if getattr(program, "__module__", None) == "__main__":
        raise ValueError(
            f"{program.__qualname__} is defined in this notebook or script, and another process "
            "cannot import it from there: write it to a file and import that"
        )
    try:
        return pickle.dumps(Task(partial(program, **settings), None, mesh, timeout_s))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"what the ranks are told cannot be sent to them: {error}") from error


@contextmanager
def _started(ranks: int, folder: Path) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """The processes, which end when the block does."""
    port, processes = _free_port(), list[subprocess.Popen[bytes]]()
    (folder / FIRST).unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "lab.parallel.worker", str(folder), WATCHED]
    try:
        for rank in range(ranks):
            (folder / f"report-{rank}").unlink(missing_ok=True)
            with (folder / f"rank-{rank}.log").open("wb") as log:
                process = subprocess.Popen(
                    command,
                    env=_environment(rank, ranks, port),
                    stdin=subprocess.PIPE,  # it closes when this process ends, however it does
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # an interrupt is for us; we end the whole session
                )
            processes.append(process)
        yield processes
    finally:
        for process in processes:
            with suppress(ProcessLookupError, PermissionError):  # nobody is left of it
                os.killpg(process.pid, signal.SIGKILL)  # and whoever it has started
        for process in processes:
            process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """As torchrun sets it, and where Python and gloo find what they need."""
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    given = {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // ranks)),
        **({"GLOO_SOCKET_IFNAME": loopback[0]} if loopback else {}),
    }
    return {
        **given,
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "PYTHONUNBUFFERED": "1",
    }


def _watch(
    processes: Sequence[subprocess.Popen[bytes]],
    folder: Path,
    clock: WallClock,
    timeout_s: float,
) -> None:
    """Wait until all have ended well; raise as soon as one has not, or it takes too long."""
    while True:
        statuses = [process.poll() for process in processes]
        if failed := {rank: status for rank, status in enumerate(statuses) if status}:
            rank = _cause(failed, folder)
            raise RankFailed(
                f"rank {rank} {_said(failed[rank])} after {clock.now():.1f} s, and the others were "
                f"stopped. {_tail(folder, rank)}"
            )
        if None not in statuses:
            return
        if clock.now() > timeout_s:
            late = [rank for rank, status in enumerate(statuses) if status is None]
            for rank in late:
                processes[rank].send_signal(signal.SIGUSR1)  # writes to the log where it is
            clock.wait_until(clock.now() + 0.5)
            raise TimeoutError(
                f"ranks {', '.join(map(str, late))} of {len(processes)} were not done after "
                f"{timeout_s} s and were stopped. " + " ".join(_tail(folder, rank) for rank in late)
            )
        clock.wait_until(clock.now() + LOOK_EVERY_S)


def _cause(failed: Mapping[int, int], folder: Path) -> int:
    """Of several, one that a signal has ended, or who failed first: the others lost a neighbour."""
    first = folder / FIRST
    told = first.read_text(encoding="ascii") if first.is_file() else ""
    return min(failed, key=lambda rank: (failed[rank] > 0, str(rank) != told, rank))


def _said(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _tail(folder: Path, rank: int) -> str:
    log = folder / f"rank-{rank}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    end = "\n  ".join(lines[-TAIL_LINES:]) or "(empty)"
    return f"The end of {log}:\n  {end}\n"


def _report(folder: Path, rank: int, has_value: bool) -> Report:
    log = (folder / f"rank-{rank}.log").read_text(encoding="utf-8", errors="replace")
    file = folder / f"report-{rank}"
    if not has_value:
        return Report(rank, None, {}, (), log)
    if not file.is_file():
        raise RankFailed(f"rank {rank} ended without a report. {_tail(folder, rank)}")
    value, held, calls = pickle.loads(file.read_bytes())
    return Report(rank, value, held, calls, log)
