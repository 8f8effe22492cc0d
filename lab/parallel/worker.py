"""What every process of `lab.launch` runs: join the others, do the task, report.

A task waits in the folder that is named on the command line; the rank is read from the environment,
so `torchrun --nproc-per-node 2 -m lab.parallel.worker FOLDER` runs the same task.
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
from pathlib import Path

from lab.parallel.launch import Task
from lab.parallel.world import World


def main(folder: Path) -> None:
    """Do the task in `folder`. The process ends here, whatever happens."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    status = 1  # also if the interpreter is asked to end
    try:
        _do(pickle.loads((folder / "task").read_bytes()), folder)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # at once: a neighbour that failed cannot be waited for


def _do(task: Task, folder: Path) -> None:
    if task.file is not None:
        runpy.run_path(task.file, run_name="__main__")
        return
    assert task.call is not None, "a task is a file or a function"
    world = World.join(task.mesh, task.timeout_s)
    value = task.call(world)
    report = folder / f"report-{world.rank}"
    report.write_bytes(pickle.dumps((value, dict(world.held), world.calls)))
    world.leave()


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
