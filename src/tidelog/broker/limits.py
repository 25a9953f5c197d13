"""Quotas, put together: what is counted before the dispatcher, at the listeners, and obeyed as the image says.

limits = BrokerLimits(services, settings, dispatcher)
limits.start(hub, serving, image.access.limits, background)      # `serving` ends in `limits.metering`
limits.follow(image.access.limits)                               # whenever the image has changed
"""

from collections.abc import Callable

from tidelog.broker.background import Background
from tidelog.broker.context import Services
from tidelog.broker.dispatch import Serving
from tidelog.broker.metering import Metering
from tidelog.broker.settings import BrokerSettings
from tidelog.network.hub import Hub
from tidelog.quotas.arrivals import Arrivals
from tidelog.quotas.limits import Limits

_SWEEP_MS = 1_000


class BrokerLimits:
    """See the module's docstring.  `services.quotas` (`accounts()`, `delays(key)`) and `arrivals.refused` are for metrics."""

    def __init__(
        self, services: Services, settings: Callable[[], BrokerSettings], dispatcher: Serving
    ) -> None:
        self._services = services
        self._quotas = services.quotas
        self._limits = Limits({})
        self.metering = Metering(
            dispatcher,
            services.quotas,
            services.handlers,
            services.clock,
            services.requests.throttle,
        )
        listeners = settings().listeners()
        security = settings().security
        of_their_own = security.inter_broker_listener or security.inter_broker_protocol
        self.arrivals = Arrivals(
            services.clock.monotonic,
            lambda: settings().quotas,
            settings().connection_rates(),
            settings().inter_broker_listener().name
            if of_their_own and len(listeners) > 1
            else None,
        )
        self._hub: Hub | None = None
        self._serving: Serving = self.metering

    def start(self, hub: Hub, serving: Serving, limits: Limits, background: Background) -> None:
        """Obey `limits`; `serving` is what the hub is to call."""
        self._hub = hub
        self._serving = serving
        self._obey(limits)
        background.every("quotas", _SWEEP_MS, self._sweep)

    def follow(self, limits: Limits) -> None:
        """Obey other limits from now on."""
        if limits is not self._limits:
            self._obey(limits)

    def settings_changed(self) -> None:
        """Obey the settings as they are now."""
        self._obey(self._limits)

    def _obey(self, limits: Limits) -> None:
        assert self._hub is not None
        self._limits = limits
        self._quotas.follow(limits)
        self.arrivals.follow(limits)
        self.metering.limits_changed()
        self._services.meter = self.metering if self.metering.is_on else None
        # `serving` may be the metering itself, whose functions have just been exchanged.
        self._hub.serve, self._hub.serve_run = self._serving.serve, self._serving.serve_run
        self._hub.watch = self.metering.watch
        self._hub.arrivals = self.arrivals if self.arrivals.limited else None

    async def _sweep(self) -> None:
        self._quotas.sweep(self._services.clock.monotonic())
        self.metering.sweep()
        self.arrivals.sweep()
