"""One profile for all property tests, and kernels that run on a machine without a GPU."""

import os
from pathlib import Path

from hypothesis import settings

settings.register_profile("house", deadline=None)  # an example may take as long as it takes
settings.load_profile("house")

if not any(Path(driver).exists() for driver in ("/dev/nvidiactl", "/dev/kfd")):
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
