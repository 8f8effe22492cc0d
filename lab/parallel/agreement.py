"""Whether two runs of one workload gave the same answers, and how close the choice was if not."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from lab.ledgers.table import Table
from lab.model.folder import load
from lab.model.parting import parting
from lab.request import Request
from lab.trace import Trace


def agreement(one: Trace, other: Trace, workload: Iterable[Request], model: str = "tiny") -> Table:
    """A row for each answer of `workload`: its tokens in `one` beside those in `other`.

    Where they part, the token at which they do, counted from 0, and the margin there: of the two
    tokens' logits, how far the lower lies below the highest of all, with the model computed alone
    in float64.
    Other sums round differently, by less than a thousandth of a logit; a larger margin has another
    reason. Margins are for greedy answers: of sampled ones only the place is told.
    """
    exact, rows = None, []
    for request in workload:
        prompt = [token for token in request.prompt if isinstance(token, int)]
        for answer in request.answers:
            said, wanted = one[answer.id].output, other[answer.id].output
            place = margin = None
            if said != wanted:
                exact = exact or load(model, torch.float64)
                parted = parting(exact.decoder, prompt, said, wanted)
                assert parted is not None, "they differ"
                place = parted.place
                margin = parted.margin if answer.sampling.is_greedy else None
            rows.append((answer.id, len(said), said == wanted, place, margin))
    columns = ("request", "tokens", "equal", "parts at token", "margin (logits)")
    same = sum(row[2] for row in rows)
    return Table(columns, tuple(rows), f"{same} of {len(rows)} answers are equal, id for id")
