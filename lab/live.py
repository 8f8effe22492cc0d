"""A real model in place of a cost model: the same scheduler, on the wall clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from lab.clock import WallClock
from lab.engine import Engine
from lab.executors.live import Listener, LiveExecutor
from lab.model.folder import Model, load
from lab.policy import Policy
from lab.prefix import Identity
from lab.request import Request
from lab.scheduler import Refused, Scheduler
from lab.trace import Trace


class LiveEngine(Engine):
    """An engine whose executor is a real model, on the wall clock."""

    executor: LiveExecutor

    def add(self, request: Request) -> None:
        """As in `Engine`; what the model cannot compute is Refused as well."""
        if reason := self.executor.reason_against(request):
            raise Refused(reason)
        super().add(request)

    def take_in(self, request: Request) -> None:
        """As in `Engine`; the model's side of the books as well."""
        super().take_in(request)
        self.executor.take(request)


def live_engine(
    model: Model | str, policy: Policy, *, listener: Listener | None = None
) -> LiveEngine:
    """A model, the scheduler and the wall clock put together; `policy` must have blocks.

    `add` requests from any thread while one thread is in `serve()`; `close()` lets it return.
    """
    loaded = load(model) if isinstance(model, str) else model
    clock = WallClock()
    settings = {
        "maker": "live",
        "model": loaded.name,
        "device": str(loaded.decoder.weights.embed_VD.device),
        "dtype": str(loaded.decoder.dtype).removeprefix("torch."),
        "policy": type(policy).__name__,
        **asdict(policy),
    }
    executor = LiveExecutor(
        loaded.decoder, policy, clock, tokenizer=loaded.tokenizer, listener=listener
    )
    scheduler = Scheduler(policy, repeats=False, identity=Identity(model=loaded.name))
    return LiveEngine(scheduler, executor, clock, Trace("s", settings, starts=[], ends=[]))


def serve(workload: Iterable[Request], policy: Policy, model: Model | str = "tiny") -> Trace:
    """Serve a workload with a real model, in real time: `lab.simulate` with a model for the cost.

    Token ids of the prompts must be the model's; a policy without blocks gets as many as the
    longest `seats` requests can ever need together. Times of the trace are seconds.
    """
    requests = list(workload)
    if policy.blocks is None:
        size = policy.block_tokens
        longest = sorted(-(-request.max_computed // size) for request in requests)
        policy = replace(policy, blocks=max(1, sum(longest[-policy.seats :])))
    return live_engine(model, policy).run(requests)
