"""For all tests: an example that takes long on a busy machine is no failure.

Nor are others drawn each time, so that what passes on one machine passes on all. New ones are for
the fuzzer, and for whoever has just changed something: `--hypothesis-profile=explore`.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("memoryd", settings.get_profile("explore"), derandomize=True)
settings.load_profile("memoryd")
