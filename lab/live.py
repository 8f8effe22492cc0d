"""A real model in place of a cost model: the same scheduler, on the wall clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from os import PathLike
from threading import Thread
from typing import Any, Self, TextIO, TypeAlias

import torch

from lab.clock import WallClock
from lab.deliveries import Delivery, EngineDead, Mailbox, Stream
from lab.engine import Engine
from lab.executors.live import LiveExecutor
from lab.model.folder import Model, loaded
from lab.plan import Ending, Event, StepOutcome
from lab.policy import Continuous, Policy
from lab.prefix import Identity
from lab.request import Request
from lab.sampling import Sampling
from lab.scheduler import Refused, Scheduler
from lab.speculation.proposer import DraftModel, PromptLookup, Proposer
from lab.trace import Trace

_MODERATE = Sampling(temperature=0.8)
_BLOCK_TOKENS = 16
_WIDE = 1024  # two threads that share a step of a few milliseconds mostly wait for each other
_GOES_ON: tuple[None, str] = (None, "")
_LOOKUP = PromptLookup()
Draft: TypeAlias = Model | Proposer | str | PathLike[str]
"""Who guesses for a model: a smaller one, or its name or folder; "prompt-lookup", the text itself;
or anybody else who proposes."""


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many threads compute meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class LiveEngine(Engine):
    """An engine whose executor is a real model, on the wall clock.

    In a `with` block (or `async with`) it serves in a thread of its own. At the end of the block
    everything that was asked is answered; if the block ends with an error, it is cancelled instead.
    """

    executor: LiveExecutor

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        trace: Trace,
        clock: WallClock,
        threads: int,
        proposer: Proposer | None = None,
        link_bytes_per_s: float | None = None,
        executes: Callable[..., LiveExecutor] = LiveExecutor,
    ) -> None:
        executor = executes(
            model.decoder,
            scheduler.policy,
            clock,
            tokenizer=model.tokenizer,
            proposer=proposer,
            link_bytes_per_s=link_bytes_per_s,
        )
        super().__init__(scheduler, executor, clock, trace)
        self.model, self.threads = model, threads
        self._mailboxes: dict[str, Mailbox] = {}  # of those who read, by answer
        self._readers_of_text: set[str] = set()  # by request, until it is taken in
        self._numbers = count(1)
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    # What comes in

    def request(
        self,
        prompt: str | Sequence[int],
        max_tokens: int = 40,
        *,
        stop: str | Iterable[str] = (),
        timeout: float | None = None,
        **more: Any,
    ) -> Request:
        """A request that arrives now: a text or token ids, to be answered in `timeout` seconds.

        The model says which tokens end an answer. `more` are further fields of `Request`.
        """
        if isinstance(prompt, str):
            prompt = self.model.tokenizer.encode(prompt)
        now = self.clock.now()
        asked = {
            "id": f"request-{next(self._numbers)}",
            "arrival": now,
            "deadline": None if timeout is None else now + timeout,
            "end_ids": self.model.config.end_ids,
            "stop": (stop,) if isinstance(stop, str) else tuple(stop),
        }
        return Request(prompt=tuple(prompt), max_tokens=max_tokens, **(asked | more))

    def add(self, request: Request) -> None:
        """As in `Engine`; what the model cannot compute is Refused as well."""
        self._refuse_what_cannot_be(request)
        super().add(request)

    def generate(self, request: Request, *, text: bool = True) -> Stream:
        """Add a request, and read its answers as they come; without `text` as tokens only.

        From any thread, while the engine serves: `EngineDead` if it does not. Raises as `add` does.
        """
        self._refuse_what_cannot_be(request)
        mailbox, answers = Mailbox(), [answer.id for answer in request.answers]
        with self._door:
            if not self._is_open or self._is_closed:
                raise EngineDead("nobody serves here: read within `with engine:`") from self._error
            self.expect(request)
            self._mailboxes.update(dict.fromkeys(answers, mailbox))
            if text:
                self._readers_of_text.add(request.id)
        self.clock.wake()
        return Stream(mailbox, answers, partial(self._leave, request.id, answers))

    def take_in(self, request: Request) -> None:
        """As in `Engine`; the model's side of the books as well."""
        super().take_in(request)
        self.executor.take(request, text=request.id in self._readers_of_text)
        self._readers_of_text.discard(request.id)

    def _refuse_what_cannot_be(self, request: Request) -> None:
        if reason := self.executor.reason_against(request):
            raise Refused(reason)

    def _leave(self, request_id: str, answers: Iterable[str]) -> None:
        """A reader leaves, perhaps while garbage is collected: without a lock."""
        self._inbox.append(partial(self._cancel_unread, request_id, answers))
        self.clock.wake()

    def _cancel_unread(self, request_id: str, answers: Iterable[str]) -> None:
        if any(answer in self._mailboxes for answer in answers):
            self.scheduler.cancel(request_id)

    # What goes out

    def hear(self, outcome: StepOutcome | None, events: Iterable[Event]) -> None:
        """As in `Engine`: whoever reads is told."""
        if not self._mailboxes:
            return
        tokens = (outcome.tokens if outcome else None) or {}
        ends: dict[str, tuple[Ending, str]] = {}
        for who, kind, reason in events:
            if kind != "left" and kind != "preempted":
                ends[who] = kind, reason
        for who in {**tokens, **ends}:
            if mailbox := self._mailboxes.get(who):
                mailbox.put(self._delivery(who, tokens.get(who, ()), *ends.get(who, _GOES_ON)))
                if who in ends:
                    del self._mailboxes[who]

    def _delivery(
        self, who: str, tokens: tuple[int, ...], status: Ending | None, reason: str
    ) -> Delivery:
        answer = self.executor.answers[who]
        text = answer.piece if tokens else ""
        if status and answer.text:
            text += answer.text.flush()
        said = answer.logprobs[len(answer.logprobs) - len(tokens) :]
        logprobs = tuple(one for one in said if one is not None)
        return Delivery(who, tokens, text, logprobs, status, reason)

    # The thread

    def run(
        self, requests: Iterable[Request], progress: Callable[[int], object] | None = None
    ) -> Trace:
        """As in `Engine`, with the engine's threads."""
        with _threads(self.threads):
            return super().run(requests, progress)

    def serve(self) -> Trace:
        """As in `Engine`; if it ends with an error, whoever reads gets `EngineDead`."""
        try:
            with _threads(self.threads):
                return super().serve()
        except BaseException as error:
            self._error = error
            for mailbox in {*self._mailboxes.values()}:
                mailbox.put(error)
            self._mailboxes.clear()
            raise

    def start(self) -> None:
        """Serve in a thread of its own until `close`."""
        if self._thread is not None:
            raise ValueError("the engine serves already: one thread is enough")
        self._is_open, self._is_closed, self._error = True, False, None
        self._thread = Thread(target=self._serve_to_the_end, name="engine", daemon=True)
        self._thread.start()

    def stop(self, *, cancel: bool = False) -> None:
        """`close`, and wait until the thread has ended. `EngineDead` if an error ended it."""
        self._join(cancel)
        if self._error is not None:
            raise EngineDead(f"the engine has stopped: {self._error!r}") from self._error

    def _join(self, cancel: bool) -> None:
        self.close(cancel=cancel)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _serve_to_the_end(self) -> None:
        with suppress(BaseException):  # `serve` keeps it for the readers and for `stop`
            self.serve()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.stop()
        else:  # which is not to be hidden by the engine's own
            self._join(cancel=True)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await asyncio.to_thread(self.__exit__, kind)


def live_engine(
    model: Model | str,
    policy: Policy,
    *,
    draft: Draft | None = None,
    keep: int | None = 1000,
    clock: WallClock | None = None,
    threads: int | None = None,
    link_bytes_per_s: float | None = None,
    executes: Callable[..., LiveExecutor] = LiveExecutor,
) -> LiveEngine:
    """A model, the scheduler and the wall clock put together; `policy` must have blocks.

    With `draft_tokens` in the policy a `draft` guesses so many tokens ahead, and the model checks
    them: another model with the same vocabulary, by name or loaded; "prompt-lookup"; or any
    `Proposer`. ValueError for two vocabularies, for a draft without `draft_tokens` and for
    `draft_tokens` without a draft.

    Of requests that have ended, the trace remembers the last `keep`, or twice as many; None: all.
    On a CPU `threads` compute, unless told otherwise one for a model narrower than 1,024, whose
    steps are too short to be shared, and else as many as torch has. Blocks that are swapped move
    no faster than `link_bytes_per_s`: beside a CPU, where a swap is a copy in the same memory, that
    is how a link behaves which is not there. `executes` makes an executor of another kind.

        with lab.live_engine("tiny", lab.Continuous(seats=8, blocks=256)) as engine:
            for delivery in engine.generate(engine.request("It is a truth")):
                print(delivery.text, end="")
    """
    model = loaded(model)
    if threads is None:
        threads = 1 if model.config.hidden < _WIDE else torch.get_num_threads()
    proposer = None if draft is None else _proposer(draft, model, policy)
    settings = {
        "maker": "live",
        "model": model.name,
        **({"draft": proposer.name} if proposer else {}),
        "device": str(model.decoder.weights.embed_VD.device),
        "dtype": str(model.decoder.dtype).removeprefix("torch."),
        "threads": threads,
        **({"link_bytes_per_s": link_bytes_per_s} if link_bytes_per_s else {}),
        "policy": type(policy).__name__,
        **asdict(policy),
    }
    scheduler = Scheduler(policy, repeats=False, identity=Identity(model=model.name))
    trace = Trace("s", settings, starts=[], ends=[], keep=keep)
    clock = clock or WallClock()
    return LiveEngine(model, scheduler, trace, clock, threads, proposer, link_bytes_per_s, executes)


def _proposer(draft: Draft, model: Model, policy: Policy) -> Proposer:
    """Who guesses for a model under a policy, which must have blocks if that is a model too."""
    if draft == _LOOKUP.name:
        return _LOOKUP
    if isinstance(draft, Proposer):
        return draft
    try:
        draft = loaded(draft)
    except (TypeError, ValueError) as reason:
        raise ValueError(
            f"a draft is a model, its name, {_LOOKUP.name!r} or a proposer, got {draft!r}: {reason}"
        ) from reason
    if policy.blocks is None:
        raise ValueError("a draft keeps K and V in blocks: give the policy blocks, got None")
    one, other = model.tokenizer.table, draft.tokenizer.table
    if one != other:
        differ = len({token for token, _ in one.items() ^ other.items()})
        raise ValueError(
            f"a draft must have the model's vocabulary: {differ} tokens are not the same in the "
            f"{len(one)} of {model.name!r} and the {len(other)} of {draft.name!r}"
        )
    return DraftModel(draft, policy.blocks, policy.block_tokens, model.config.vocab)


def with_blocks(policy: Policy, requests: Iterable[Request]) -> Policy:
    """A policy with blocks: its own, or as many as the longest `seats` answers need together."""
    if policy.blocks is not None:
        return policy
    size = policy.block_tokens
    longest = sorted(
        -(-request.max_computed // size) for request in requests for _ in range(request.n)
    )
    return replace(policy, blocks=max(1, sum(longest[-policy.seats :])))


def serve(
    workload: Iterable[Request],
    policy: Policy,
    model: Model | str = "tiny",
    *,
    draft: Draft | None = None,
    clock: WallClock | None = None,
    threads: int | None = None,
    link_bytes_per_s: float | None = None,
) -> Trace:
    """Serve a workload with a real model, in real time: `lab.simulate` with a model for the cost.

    Token ids of the prompts must be the model's; a policy without blocks gets as many as the
    longest `seats` answers can ever need together. Times of the trace are seconds, of a `clock`
    that starts with the run unless another one is given; for `draft`, `threads` and
    `link_bytes_per_s` see `live_engine`.

        lab.serve(work, lab.Continuous(draft_tokens=4), model="tiny", draft="tiny-draft")
    """
    requests = list(workload)
    policy = with_blocks(policy, requests)
    engine = live_engine(
        model,
        policy,
        draft=draft,
        keep=None,
        clock=clock,
        threads=threads,
        link_bytes_per_s=link_bytes_per_s,
    )
    return engine.run(requests)


def generate(
    prompt: str,
    model: Model | str = "tiny",
    *,
    max_tokens: int = 40,
    sampling: Sampling = _MODERATE,
    stop: str | Iterable[str] = (),
    draft: Draft | None = None,
    draft_tokens: int = 4,
    to: TextIO | None = None,
) -> str:
    """How a model goes on after `prompt`: `lab.generate("It is a truth")`.

    With a `draft`, `draft_tokens` are guessed at a time; for what it may be see `live_engine`.

    The same call gives the same text; another `lab.Sampling(seed=...)` gives another one. With
    `to=sys.stdout`, or another file, the text is written there too, as it comes. RuntimeError if
    the model fails.
    """
    model = loaded(model)
    positions = len(model.tokenizer.encode(prompt)) + max_tokens
    blocks = -(-min(positions, model.config.max_positions) // _BLOCK_TOKENS)
    policy = Continuous(
        seats=1,
        blocks=max(1, blocks),
        block_tokens=_BLOCK_TOKENS,
        draft_tokens=0 if draft is None else draft_tokens,
    )
    text = ""
    with live_engine(model, policy, draft=draft) as engine:
        request = engine.request(prompt, max_tokens, sampling=sampling, stop=stop)
        for delivery in engine.generate(request):
            text += delivery.text
            if to:
                print(delivery.text, end="", file=to, flush=True)
    if delivery.status != "finished":
        raise RuntimeError(f"the answer is {delivery.status}: {delivery.reason}")
    return text
