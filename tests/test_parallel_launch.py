"""Processes that are started, watched and ended: none is left behind, and a failure is named."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import rank_programs
import torch

from lab.clock import WallClock
from lab.ledgers.communication import collective
from lab.ledgers.links import link
from lab.parallel.collectives import Group
from lab.parallel.launch import Launch, RankFailed, _environment, _free_port, launch
from lab.parallel.mesh import Mesh, share
from lab.parallel.world import World

LENGTHS = (1, 6, 7, 1000)
ROWS = ((1, 0, 3), (2, 2, 0), (0, 5, 1))
NVLINK = link("nvlink-4")

pytestmark = pytest.mark.timeout(120)  # Python and torch are loaded anew for every rank


@pytest.fixture(scope="module")
def three() -> Launch:
    return launch(rank_programs.collectives, 3, lengths=LENGTHS, timeout_s=100)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("length", LENGTHS)
def test_our_ring_and_the_library_agree_with_the_plain_sum(three: Launch, length: int) -> None:
    drawn = [rank_programs.drawn(rank, length) for rank in range(3)]
    pieces = sum(rank_programs.drawn(100 + rank, 3, length).double() for rank in range(3))
    total = sum(one.double() for one in drawn)
    for by in ("library", "ring"):
        for rank, found in enumerate(three.values):
            assert torch.equal(found["all-gather", by, length], torch.stack(drawn))
            for kind, wanted in {"all-reduce": total, "reduce-scatter": pieces[rank]}.items():
                assert (found[kind, by, length] - wanted).abs().max() < 1e-6 * 3
        sums = [found["all-reduce", by, length] for found in three.values]
        assert torch.equal(sums[0], sums[1])  # on all ranks the same bits
        assert torch.equal(sums[0], sums[2])


def test_the_bytes_of_our_ring_are_those_of_the_formulas(three: Launch) -> None:
    payloads = {
        "all-reduce": [4 * n for n in LENGTHS],
        "all-gather": [4 * 3 * n for n in LENGTHS],
        "reduce-scatter": [4 * 3 * n for n in LENGTHS],
    }
    for kind, sizes in payloads.items():
        formula = collective(kind, sum(sizes), 3, NVLINK, "ring")
        calls = {
            by: [c for r in three.reports for c in r.calls if (c.kind, c.algorithm) == (kind, by)]
            for by in ("library", "ring")
        }
        for counted in calls["library"]:
            assert counted.payload_bytes == sum(sizes)
            assert counted.times == len(LENGTHS)
            assert counted.sent_bytes == formula.sent_bytes
        assert [c.payload_bytes for c in calls["ring"]] == [sum(sizes)] * 3
        assert sum(c.sent_bytes for c in calls["ring"]) == formula.wire_bytes
        if kind != "all-reduce":  # pieces of one size: all ranks send as much
            assert {c.sent_bytes for c in calls["ring"]} == {formula.sent_bytes}


def test_of_an_uneven_all_reduce_a_rank_sends_the_pieces_that_it_passes_on(three: Launch) -> None:
    for rank, report in enumerate(three.reports):
        (counted,) = (c for c in report.calls if (c.kind, c.algorithm) == ("all-reduce", "ring"))
        # all pieces but its own, and all but its neighbour's
        kept = (len(share(n, 3, r)) for n in LENGTHS for r in (rank, (rank + 1) % 3))
        assert counted.sent_bytes == 4 * (2 * sum(LENGTHS) - sum(kept))


def test_messages_arrive_where_they_are_sent_and_are_counted_exactly() -> None:
    run = launch(rank_programs.exchanges, 3, rows=ROWS, timeout_s=100)
    for rank, (found, report) in enumerate(zip(run.values, run.reports, strict=True)):
        senders = [float(r) for r in range(3) for _ in range(ROWS[r][rank])]
        assert found["all-to-all"][:, 0].tolist() == senders
        before = float((rank - 1) % 3)
        assert found["send"].tolist() == [before] * 4
        assert found["shift"].tolist() == [before] * 3
        assert found["tell"] == {"from": 1, "text": "ä"}
        sent = {calls.kind: calls for calls in report.calls}
        assert set(sent) == {"send", "all-to-all"} | ({"broadcast"} if rank == 1 else set())
        assert sent["send"][3:] == (2, 28, 28)
        away = sum(ROWS[rank]) - ROWS[rank][rank]
        assert sent["all-to-all"][3:] == (1, 8 * sum(ROWS[rank]), 8 * away)
        assert report.sent_bytes == 28 + 8 * away  # the plan of rank 1 is not counted


def test_ranks_of_a_mesh_meet_along_its_axes_in_a_run_that_is_repeated(tmp_path: Path) -> None:
    again = launch(rank_programs.along_axes, Mesh(pp=2), folder=tmp_path, timeout_s=100)
    assert again.values == (
        {"tp": ((0,), 0), "pp": ((0, 1), 1)},
        {"tp": ((1,), 1), "pp": ((0, 1), 1)},
    )
    run = launch(rank_programs.along_axes, Mesh(tp=2, pp=2), folder=tmp_path, timeout_s=100)
    assert [value["tp"] for value in run.values] == [
        ((0, 1), 1), ((0, 1), 1), ((2, 3), 5), ((2, 3), 5),
    ]  # fmt: skip
    assert [value["pp"][0] for value in run.values] == [(0, 2), (1, 3), (0, 2), (1, 3)]
    assert sorted(file.name for file in tmp_path.glob("*.log")) == [
        f"rank-{rank}.log" for rank in range(4)
    ]
    assert run.table().columns == ("rank", "sent (bytes)")
    assert [row["axis"] for row in run.traffic()] == ["tp", "pp"] * 4


def test_a_killed_rank_is_named_within_seconds_and_nobody_is_left(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match=r"rank 1 was ended by SIGKILL") as caught:
        launch(rank_programs.killed, 2, pids=str(tmp_path), folder=tmp_path / "logs", timeout_s=100)
    assert "rank 1 begins" in str(caught.value)
    assert time.time() - float((tmp_path / "killed at").read_text()) < 10
    pids = [int((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert len(pids) == 2
    assert not any(map(is_running, pids))


def test_what_a_rank_has_started_ends_with_it(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match="rank 1 ended with status 1"):
        launch(rank_programs.busy, 2, pids=str(tmp_path), folder=tmp_path / "logs", timeout_s=100)
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_running(child))


def test_ranks_end_with_whoever_started_them(tmp_path: Path) -> None:
    """Even if that is killed: nobody could end them then."""
    pids = tmp_path / "pids"
    pids.mkdir()
    told = {"pids": str(pids), "folder": str(tmp_path / "logs")}
    code = f"import rank_programs as r, lab; lab.launch(r.hung, 2, **{told})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as parent:
        wait_until(lambda: len(list(pids.iterdir())) == 2)
        parent.kill()
    began = [int(file.read_text()) for file in pids.iterdir()]
    wait_until(lambda: not any(map(is_running, began)))


def test_an_error_on_a_rank_is_shown_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the other one, which has lost its neighbour, has failed too when we look."""
    monkeypatch.setattr("lab.parallel.launch.LOOK_EVERY_S", 4)
    with pytest.raises(RankFailed, match=r"(?s)rank 1 ended with status 1 .*got 0"):
        launch(rank_programs.wrong, 2, folder=tmp_path, timeout_s=100)
    assert "seats must be at least 1" in (tmp_path / "rank-1.log").read_text()


def test_a_run_that_hangs_ends_and_says_where_each_rank_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()

    def read() -> float:
        """An hour passes as soon as both ranks hang."""
        began = [file.stat().st_mtime for file in pids.iterdir()]
        hang = len(began) == 2 and time.time() - max(began) > 1
        return time.perf_counter() + (3600 if hang else 0)

    monkeypatch.setattr("lab.parallel.launch.WallClock", partial(WallClock, read))
    with pytest.raises(TimeoutError, match=r"ranks 0, 1 of 2 were not done after 100 s") as caught:
        launch(rank_programs.hung, 2, pids=str(pids), folder=tmp_path / "logs", timeout_s=100)
    assert "in all_reduce" in str(caught.value)
    assert "in hung" in str(caught.value)
    assert not any(is_running(int(file.read_text())) for file in pids.iterdir())


def test_a_rank_without_a_report_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match=r"rank 0 ended without a report"):
        launch(rank_programs.quiet, 1, folder=tmp_path, timeout_s=100)


def test_a_file_is_run_as_torchrun_runs_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("words = 'the sum is'\n", encoding="utf-8")
    file = tmp_path / "mine.py"
    file.write_text(
        "import os, sys, torch, torch.distributed as dist\n"
        "from beside import words\n"
        "assert sys.argv[1:] == []\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.tensor(float(os.environ['RANK']))\n"
        "dist.all_reduce(x)\n"
        "print(words, float(x))\n"
        "dist.destroy_process_group()\n"
        "sys.exit(0)\n",
        encoding="utf-8",
    )
    run = launch(file, 2, timeout_s=100)
    assert all("the sum is 1.0" in report.log for report in run.reports)
    assert run.values == (None, None)


def test_a_script_that_gives_up_is_told_in_its_own_words(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import sys\nsys.exit('no GPU here')\n", encoding="utf-8")
    with pytest.raises(RankFailed, match=r"rank 0 ended with status 1 .*\n  no GPU here\n$"):
        launch(file, 1, timeout_s=100)


def test_a_task_is_run_again_by_hand_with_its_input_closed(tmp_path: Path) -> None:
    """As torchrun does it where nobody sits at a terminal."""
    launch(rank_programs.along_axes, 1, folder=tmp_path, timeout_s=100)
    (tmp_path / "report-0").unlink()
    subprocess.run(
        [sys.executable, "-m", "lab.parallel.worker", str(tmp_path)],
        env=_environment(0, 1, _free_port()),
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=100,
    )
    assert (tmp_path / "report-0").is_file()


def test_every_group_waits_as_long_as_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[tuple[int, ...], Any] = {}
    monkeypatch.setattr(
        "torch.distributed.new_group",
        lambda ranks, timeout=None: made.setdefault(tuple(ranks), timeout),
    )
    World(Mesh(tp=2, pp=2), 0, torch.device("cpu"), timeout_s=7)
    assert made == dict.fromkeys([(0, 1), (2, 3), (0, 2), (1, 3)], timedelta(seconds=7))


def test_another_way_to_add_up_is_refused_and_not_counted() -> None:
    group = Group("dp", range(2), 0, None, {}, torch.device("cpu"))
    with pytest.raises(
        ValueError, match='all-reduce is done by "library" or by "ring", got \'tree'
    ):
        group.all_reduce(torch.ones(2), "tree")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("program", "settings", "message"),
    [
        ("nowhere.py", {}, "nowhere.py is not there: a program is a file or a function"),
        (__file__, {"seed": 1}, "a file takes no settings, got seed"),
        (lambda world: None, {}, "what the ranks are told cannot be sent to them"),
        (rank_programs.wrong, {"hook": lambda: None}, "what the ranks are told cannot be sent"),
    ],
)
def test_what_cannot_be_started_is_refused(
    program: Callable[..., Any] | str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        launch(program, 2, **settings)


def test_a_function_of_a_notebook_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_programs.wrong, "__module__", "__main__")
    with pytest.raises(ValueError, match="wrong is defined in this notebook or script, and"):
        launch(rank_programs.wrong, 2)
