"""The calls by which ranks exchange numbers, each counted where it is made.

A payload is counted as the ledger counts it (`lab.ledgers.communication`): what a rank has before
the call, and of an all-gather what it has behind it. Bytes that a rank sends are counted exactly
where this file sends them itself: send, shift, all-to-all, and collectives `by="ring"`. How the
library moves its own it does not say: there the bytes are those of a ring, by the formula.
A group of one sends nothing, and nothing is counted; nor is a call without numbers.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from lab.ledgers.communication import collective
from lab.ledgers.links import Link
from lab.ledgers.sizes import Number
from lab.parallel.mesh import share

_ANY = Link(name="any", bytes_per_s=1, latency_s=0, source="none: only bytes are counted")
Way: TypeAlias = Literal["library", "ring"]


@dataclass(slots=True)
class Tally:
    """What the calls of one kind sum up to."""

    times: int = 0
    payload_bytes: int = 0
    sent_bytes: Number = 0


Account: TypeAlias = dict[tuple[str, str, str], Tally]
"""By axis, kind of call, and who does it."""


class Group:
    """Some ranks that talk to each other, as one of them sees them.

    `index` is its place among them. All ranks of a group make the same calls in the same order.
    """

    def __init__(
        self,
        axis: str,
        ranks: Sequence[int],
        rank: int,
        handle: dist.ProcessGroup | None,
        account: Account,
        device: torch.device,
    ) -> None:
        self.axis, self.ranks, self.device = axis, tuple(ranks), device
        self.size, self.index = len(self.ranks), self.ranks.index(rank)
        self._handle, self._account = handle, account
        self._on_the_way: tuple[dist.Work, Tensor] | None = None

    def shares(self, total: int) -> list[range]:
        """`total` things cut into a run for each rank, the first of which hold one more."""
        return [share(total, self.size, place) for place in range(self.size)]

    def all_reduce(self, x: Tensor, by: Way = "library") -> Tensor:
        """The sum of every rank's `x`, in its place: on all ranks the same bits."""
        if self.size > 1 and x.numel():
            tally = self._tally("all-reduce", by, x.nbytes)
            if by == "ring":
                pieces = self._cut(x)
                self._scatter(pieces, tally)
                self._gather(pieces, tally)
            else:
                dist.all_reduce(x, group=self._handle)
        return x

    def all_gather(self, x: Tensor, by: Way = "library") -> Tensor:
        """Every rank's `x`, all of one shape, in a new first dimension."""
        whole = x.new_empty((self.size, *x.shape))
        whole[self.index] = x
        if self.size > 1 and x.numel():
            tally = self._tally("all-gather", by, whole.nbytes)
            if by == "ring":
                self._gather(whole.unbind(), tally)
            else:
                dist.all_gather_single(whole.view(-1), x.reshape(-1), group=self._handle)
        return whole

    def reduce_scatter(self, x: Tensor, by: Way = "library") -> Tensor:
        """The sum over all ranks of `x[index]`: each keeps another one. `x` may be used up."""
        if len(x) != self.size:
            raise ValueError(f"{self.size} ranks scatter {self.size} pieces, got {len(x)}")
        if self.size == 1 or not x.numel():
            return x[self.index]
        tally = self._tally("reduce-scatter", by, x.nbytes)
        if by == "ring":
            self._scatter(x.unbind(), tally)
            return x[self.index]
        mine = torch.empty_like(x[0])
        dist.reduce_scatter_single(mine.view(-1), x.reshape(-1), group=self._handle)
        return mine

    def all_to_all(self, x: Tensor, rows: Sequence[int], coming: Sequence[int]) -> Tensor:
        """Send the first `rows[0]` rows of `x` to the first rank, the next to the second, ...;
        `coming[r]` rows come from rank r. Returns those, in the order of ranks."""
        if self.size == 1:
            return x
        tally = self._tally("all-to-all", "direct", x.nbytes)
        row_bytes = x[:1].nbytes
        tally.sent_bytes += row_bytes * (sum(rows) - rows[self.index])
        received = x.new_empty((sum(coming), *x.shape[1:]))
        dist.all_to_all_single(
            received, x.contiguous(), list(coming), list(rows), group=self._handle
        )
        return received

    def send(self, x: Tensor, to: int) -> None:
        """Send `x` to the rank at place `to`, and go on when what was sent before has gone. `x`
        must stay as it is until the next call."""
        if not x.numel():
            return
        if self._on_the_way is not None:
            self._on_the_way[0].wait()
        self._tally("send", "direct", x.nbytes).sent_bytes += x.nbytes
        x = x.contiguous()
        work = dist.isend(x, self.ranks[to], group=self._handle)
        assert work is not None, "both ranks belong to the group"
        self._on_the_way = work, x  # a message that nobody remembers is never sent

    def receive(self, x: Tensor, source: int) -> Tensor:
        """Fill `x` with what the rank at place `source` sends."""
        if x.numel():
            dist.recv(x, self.ranks[source], group=self._handle)
        return x

    def shift(self, x: Tensor, into: Tensor) -> Tensor:
        """Send `x` to the next rank of the ring, and fill `into` from the one before."""
        if self.size > 1:
            self._pass_on(x, into, self._tally("send", "direct", x.nbytes))
        return into

    def tell(self, message: Any = None, source: int = 0) -> Any:
        """What the rank at place `source` has to say, on every rank: any value. Counted is what
        that rank sends if it tells each of the others."""
        if self.size == 1:
            return message
        said = bytearray(pickle.dumps(message) if self.index == source else b"")
        if said:
            tally = self._tally("broadcast", "direct", len(said))
            tally.sent_bytes += len(said) * (self.size - 1)
        length = torch.tensor([len(said)], device=self.device)
        dist.broadcast(length, self.ranks[source], group=self._handle)
        text = torch.empty(int(length), dtype=torch.uint8, device=self.device)
        if said:
            text.copy_(torch.frombuffer(said, dtype=torch.uint8))
        dist.broadcast(text, self.ranks[source], group=self._handle)
        return message if said else pickle.loads(bytes(text.tolist()))

    def _tally(self, kind: str, by: str, payload_bytes: int) -> Tally:
        if by not in ("library", "ring", "direct"):
            raise ValueError(f'{kind} is done by "library" or by "ring", got {by!r}')
        tally = self._account.setdefault((self.axis, kind, by), Tally())
        tally.times += 1
        tally.payload_bytes += payload_bytes
        if by == "library":
            tally.sent_bytes += collective(kind, payload_bytes, self.size, _ANY, "ring").sent_bytes
        return tally

    # A ring of messages between neighbours

    def _cut(self, x: Tensor) -> list[Tensor]:
        """`x` in as many runs as there are ranks: the first ones hold one number more."""
        flat = x.view(-1)
        return [flat[run.start : run.stop] for run in self.shares(len(flat))]

    def _scatter(self, pieces: Sequence[Tensor], tally: Tally) -> None:
        """Piece r goes round, from the neighbour of rank r to rank r, and every rank adds its own:
        in the end `pieces[index]` is the sum."""
        for step in range(1, self.size):
            into = pieces[(self.index - step - 1) % self.size]
            arrived = torch.empty_like(into)
            self._pass_on(pieces[(self.index - step) % self.size], arrived, tally)
            into += arrived

    def _gather(self, pieces: Sequence[Tensor], tally: Tally) -> None:
        """Piece r goes round from rank r, until every rank has them all."""
        for step in range(self.size - 1):
            into = pieces[(self.index - step - 1) % self.size]
            self._pass_on(pieces[(self.index - step) % self.size], into, tally)

    def _pass_on(self, x: Tensor, into: Tensor, tally: Tally) -> None:
        following, before = self.index + 1, self.index - 1
        works = []
        if x.numel():
            tally.sent_bytes += x.nbytes
            peer = self.ranks[following % self.size]
            works.append(dist.isend(x.contiguous(), peer, group=self._handle))
        if into.numel():
            works.append(dist.irecv(into, self.ranks[before % self.size], group=self._handle))
        for work in works:
            assert work is not None, "both ranks belong to the group"
            work.wait()
