"""One profile for all property tests, and kernels that run on a machine without a GPU."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)  # an example may take as long as it takes
settings.load_profile("house")

if not any(Path(driver).exists() for driver in ("/dev/nvidiactl", "/dev/kfd")):
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch computes with one thread: on a busy machine two wait for each other."""
    torch = pytest.importorskip("torch")  # which most tests do without
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
