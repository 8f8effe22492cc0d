"""One profile for all property tests: an example may take as long as it takes."""

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
