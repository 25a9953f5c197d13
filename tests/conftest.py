"""Properties are not timed: a busy machine is no failure."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]  # for the tests of our own plugin; only here may it be asked for

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
