"""Draws the picture of the README and the landing page from two real runs of the scheduler.

`python book/draw_pictures.py` writes book/_static/two-seats.svg.
"""

from __future__ import annotations

from pathlib import Path

import lab
from lab.figures.still import still

PICTURE = Path(__file__).parent / "_static" / "two-seats.svg"


def two_seats() -> str:
    """Static and continuous batching of A, B and C on two seats."""
    work = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 4), "C": (0, 1, 2)})
    equal = lab.CostModel.equal_steps()
    static = lab.simulate(work, lab.Static(seats=2), equal)
    free = lab.simulate(work, lab.Continuous(seats=2), equal)
    ends = {"static": static["C"].end, "free": free["C"].end}
    idle = {"static": lab.occupancy(static).idle, "free": lab.occupancy(free).idle}
    scenes = [
        lab.timeline(
            static,
            "Static batching: a seat is taken until all are done",
            f"C is done after step {ends['static']}; {idle['static']} seat-steps stood idle.",
        ),
        lab.timeline(
            free,
            "Continuous batching: a seat goes on at once",
            f"C is done after step {ends['free']}; {idle['free']} stood idle.",
        ),
    ]
    label = (
        "Two seats, three requests: A needs 2 steps, B 4, C 2 and waits. Under static batching the "
        f"seat that A leaves stays idle until B is done, and C ends after step {ends['static']}. "
        f"Under continuous batching C takes the seat at once and ends after step {ends['free']}."
    )
    return still(scenes, label)


if __name__ == "__main__":
    PICTURE.write_text(two_seats(), encoding="utf-8")
    print(f"wrote {PICTURE.name}")
