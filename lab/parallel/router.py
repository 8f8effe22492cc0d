"""Which of several replicas answers a request: the one that has its beginning, or the idlest.

A replica keeps its own prefix cache, so requests that begin alike are worth keeping together.
"""

from __future__ import annotations

from lab.prefix import BlockKey, Chain, Identity
from lab.request import Request


class Router:
    """Sends requests to `replicas` by the first `blocks` blocks of their prompts.

    The first request with a beginning goes to the replica with the least open tokens (of equals
    the first), and whoever begins alike follows, unless that replica is more than `most_ahead`
    tokens ahead of the idlest: then that one gets the request, and the beginning moves with it.
    None: it never moves. A prompt that does not fill the blocks goes to the idlest.
    """

    def __init__(
        self,
        replicas: int,
        *,
        block_tokens: int = 16,
        blocks: int = 1,
        most_ahead: int | None = None,
    ) -> None:
        for name, count in {
            "replicas": replicas,
            "block_tokens": block_tokens,
            "blocks": blocks,
        }.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}")
        self.block_tokens, self.blocks, self.most_ahead = block_tokens, blocks, most_ahead
        self.open_tokens = [0] * replicas
        """Prompt and answer tokens of the requests that were sent there and are not done."""
        self._home: dict[BlockKey, int] = {}
        self._open: dict[str, tuple[int, int]] = {}

    def route(self, request: Request) -> int:
        """The number of the replica that gets a request."""
        idlest = self.open_tokens.index(min(self.open_tokens))
        key, chosen = self._key(request), idlest
        if key is not None:
            chosen = self._home.get(key, idlest)
            ahead = self.open_tokens[chosen] - self.open_tokens[idlest]
            if self.most_ahead is not None and ahead > self.most_ahead:
                chosen = idlest
            self._home[key] = chosen
        tokens = request.prompt_tokens + request.n * request.max_tokens
        self.open_tokens[chosen] += tokens
        self._open[request.id] = chosen, tokens
        return chosen

    def done(self, request_id: str) -> None:
        """A request has ended: its tokens are open no more. KeyError if it was not open."""
        replica, tokens = self._open.pop(request_id)
        self.open_tokens[replica] -= tokens

    def _key(self, request: Request) -> BlockKey | None:
        identity = Identity(adapter=request.adapter, tenant=request.tenant)
        chain = Chain(identity, self.block_tokens, request.prompt)
        return chain[self.blocks - 1] if chain.num_full >= self.blocks else None
