"""For all tests: an example that takes long on a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("memoryd", deadline=None)
settings.load_profile("memoryd")
