"""What an outcome says about its plan: whether it answers it, and how far it counts."""

from __future__ import annotations

from collections.abc import Mapping

from lab.plan import Chunk, Ending, StepOutcome, StepPlan
from lab.request import Sequence


def check_outcome(plan: StepPlan, outcome: StepOutcome) -> None:
    """Raises ValueError if an outcome does not answer its plan: a wrong number of ends or of
    tokens, more guesses than planned or more accepted than there were, or a word about somebody
    who is not in it."""
    if not 1 <= len(outcome.ends) <= plan.repeat:
        raise ValueError(
            f"a plan of {plan.repeat} equal steps needs 1 to {plan.repeat} ends, "
            f"got {len(outcome.ends)}"
        )
    if outcome.tokens is None and not any(outcome[2:]):
        return
    for chunk in plan.written:
        drafted = outcome.drafted.get(chunk.request_id, chunk.drafts)
        if not 0 <= drafted <= chunk.drafts:
            raise ValueError(
                f"request {chunk.request_id!r}: drafted must be 0 to {chunk.drafts} drafts, "
                f"got {drafted}"
            )
        accepted = outcome.accepted.get(chunk.request_id, 0)
        if not 0 <= accepted <= drafted:
            raise ValueError(
                f"request {chunk.request_id!r}: accepted must be 0 to {drafted} drafts, "
                f"got {accepted}"
            )
        if outcome.tokens is None:
            continue
        want = 1 + accepted if _brings(chunk, outcome) else 0
        count = len(outcome.tokens.get(chunk.request_id, ()))
        if count != want:
            raise ValueError(
                f"request {chunk.request_id!r}: the step must bring {want} tokens, got {count}"
            )
    _check_names(plan, outcome)


def _check_names(plan: StepPlan, outcome: StepOutcome) -> None:
    written = {chunk.request_id for chunk in plan.written}
    for named in (outcome.tokens or (), *outcome[2:]):
        if not written.issuperset(named):
            raise ValueError(
                f"request {min({*named} - written)!r}: the outcome "
                "speaks of it, and it is none of the chunks that the plan writes out"
            )
    if outcome.stops:
        silent = {chunk.request_id for chunk in plan.written if not _brings(chunk, outcome)}
        if early := silent & {*outcome.stops}:
            raise ValueError(
                f"request {min(early)!r}: it cannot stop in a step that brings no token"
            )


def counted(plan: StepPlan, outcome: StepOutcome, sequences: Mapping[str, Sequence]) -> StepOutcome:
    """An outcome as far as it counts: an answer ends with the first token that ends it, even among
    accepted drafts, and nobody forks from a sequence that failed."""
    failures = {**outcome.failures}
    for chunk in plan.written:
        if chunk.fork_of in failures:
            failures[chunk.request_id] = failures[chunk.fork_of]
    if outcome.tokens is None:
        return outcome._replace(failures=failures)
    tokens, accepted, stops = {**outcome.tokens}, {**outcome.accepted}, {**outcome.stops}
    for who, brought in outcome.tokens.items():
        request = sequences[who].request
        if not (request.stop_ids or request.end_ids):
            continue
        for place, token in enumerate(brought):
            if reason := request.ends_with(token):
                tokens[who], accepted[who], stops[who] = brought[: place + 1], place, reason
                break
    return StepOutcome(outcome.ends, tokens, accepted, failures, stops, outcome.drafted)


def carried_out(plan: StepPlan, outcome: StepOutcome, block_tokens: int) -> StepPlan:
    """A plan as far as there were guesses to check."""
    if not outcome.drafted:
        return plan
    return plan._replace(
        written=tuple(
            chunk.with_drafts(outcome.drafted.get(chunk.request_id, chunk.drafts), block_tokens)
            for chunk in plan.written
        )
    )


def ending(request_id: str, outcome: StepOutcome) -> tuple[Ending, str]:
    """How and why a request ends that a step has done with."""
    if request_id in outcome.failures:
        return "failed", outcome.failures[request_id]
    return "finished", outcome.stops.get(request_id, "length")


def _brings(chunk: Chunk, outcome: StepOutcome) -> bool:
    """Whether the chunk brings a token: not if it failed, or what it forks from."""
    failed = chunk.request_id in outcome.failures or chunk.fork_of in outcome.failures
    return chunk.samples and not failed
