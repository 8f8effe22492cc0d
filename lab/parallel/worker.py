"""What every process of `lab.launch` runs: join the others, do the task, report.

A task waits in the folder that is named on the command line; the rank is read from the environment,
so `torchrun --nproc-per-node 2 -m lab.parallel.worker FOLDER` runs the same task. With
"watched" behind it a process ends when its standard input is closed: with whoever started it.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import runpy
import signal
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from lab.parallel.launch import FIRST, WATCHED, Task
from lab.parallel.world import World


def main(folder: Path, *, is_watched: bool) -> None:
    """Do the task in `folder`. The process ends here, whatever happens."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if is_watched:
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
    status = 1
    try:
        _do(pickle.loads((folder / "task").read_bytes()), folder)
        status = 0
    except SystemExit as end:
        status = _status(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        if status:
            _write_down_who_failed_first(folder)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # at once: a neighbour that failed cannot be waited for


def _write_down_who_failed_first(folder: Path) -> None:
    """Others fail when they lose this rank, and find the file there."""
    with suppress(FileExistsError), (folder / FIRST).open("x", encoding="ascii") as file:
        file.write(os.environ["RANK"])


def _do(task: Task, folder: Path) -> None:
    if task.file is not None:
        sys.argv = [task.file]
        sys.path.insert(0, str(Path(task.file).parent))  # what lies beside a script it may import
        runpy.run_path(task.file, run_name="__main__")
        return
    assert task.call is not None, "a task is a file or a function"
    world = World.join(task.mesh, task.timeout_s)
    value = task.call(world)
    report = folder / f"report-{world.rank}"
    report.write_bytes(pickle.dumps((value, dict(world.held), world.calls)))
    world.leave()


def _status(code: object) -> int:
    """The status that `sys.exit(code)` asks for: 0 for None, and 1 for words, which are printed."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)  # this process, and whoever it has started


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_watched=WATCHED in sys.argv[2:])
