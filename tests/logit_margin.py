"""Where two greedy answers part: as `lab.model.parting` finds it."""

from lab.model.parting import Parting, parting

__all__ = ["Parting", "parting"]
