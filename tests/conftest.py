"""Properties are not timed: a busy machine is no failure."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]  # for the tests of our own plugin; only here may it be asked for

EXAMPLES = int(os.environ.get("TIDELOG_EXAMPLES", "100"))
"""Of each property; `make sanitize` has more."""

settings.register_profile(
    "untimed", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")
