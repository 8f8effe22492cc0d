"""What a test does on a machine that lacks something it needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cannot(reason: str) -> NoReturn:
    """Skip with the reason: a reader's machine may lack a browser or a site. CI may not: fail."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
