"""A simulated engine whose draft and target are small exact models: guesses are really checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.executors.cost_model import CostModel
from lab.plan import StepOutcome, StepPlan
from lab.request import Time
from lab.speculation.acceptance import Model, Tokens, propose, verify
from lab.speculation.enumeration import dice
from lab.trace import Unit


@dataclass(frozen=True, slots=True)
class Guesses:
    """Names the tokens of answers, and says with `cost` how long a step takes.

    `draft` and `target` give the distribution of the next token behind an answer so far; a prompt
    says nothing to them. Draws are keyed by `seed`, request and length of the answer, so that a
    request's tokens do not depend on who is computed with it. The draft's own steps take no time
    here: give `cost` a price that has them in it.
    """

    draft: Model
    target: Model
    cost: CostModel
    seed: int = 0
    _answers: dict[str, Tokens] = field(default_factory=dict)

    @property
    def unit(self) -> Unit:
        """The unit of the cost model."""
        return self.cost.unit

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the cost model, and the seed."""
        return {**self.cost.settings, "seed": self.seed}

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        """Draw and check the guesses of each chunk that samples; take as long as `cost` says."""
        for who in plan.ended:
            self._answers.pop(who, None)
        tokens, accepted = {}, {}
        for chunk in plan.chunks:
            if chunk.samples:
                who = chunk.request_id
                text = self._answers.get(who, ())
                choose = dice(f"{self.seed}/{who}/{len(text)}")
                guesses = propose(self.draft, text, chunk.drafts, choose)
                tokens[who] = verify(self.draft, self.target, text, guesses, choose)
                accepted[who] = len(tokens[who]) - 1
                self._answers[who] = text + tokens[who]
        return StepOutcome(self.cost.run(plan, now, until).ends, tokens, accepted)
