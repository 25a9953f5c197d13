"""Keeps this broker registered: under its present session, and unfenced.

    registration = Registration(control, members, tail, record, last_epoch=…, registered=…)
    await registration.register()            # known to the cluster, fenced unless it is alone
    …                                        # partitions are opened, connections accepted
    await registration.unfence()             # from now on it may lead
    run(registration.run())

`run` looks at what the image says of this broker and asks for what is missing, again and again: so it does not matter
whether a session was lost, an answer did not come, or the controller fenced this broker by mistake.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tidelog.cluster.control import Control
from tidelog.cluster.image import VERSION, Broker, Delta, Image
from tidelog.cluster.membership import Membership
from tidelog.cluster.metadata import METADATA_VERSION, BrokerRecord
from tidelog.cluster.tail import Tail
from tidelog.errors import InconsistentClusterId, KafkaError, StartError
from tidelog.metastore.contract import MetastoreError

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2
_TELL_AFTER_SECONDS = 3.0


class Registration:
    """See the module's docstring."""

    def __init__(
        self,
        control: Control,
        members: Membership,
        tail: Tail,
        record: BrokerRecord,
        *,
        last_epoch: int,
        registered: Callable[[int], Awaitable[None]],
    ) -> None:
        """`record` is where this broker is; `last_epoch` that of its last life, if it still has all that it wrote then.

        `registered` is told the epoch of every registration.
        """
        self._control = control
        self._members = members
        self._tail = tail
        self._record = record
        self._last_epoch = last_epoch
        self._registered = registered
        self._closed = False
        self._bell = asyncio.Event()
        members.subscribe(self._bell.set)
        tail.subscribe(self._image_changed)

    @property
    def broker(self) -> Broker | None:
        """This broker, as the image has it; None if that speaks of an earlier life."""
        found = self._tail.image.brokers.get(self._record.broker_id)
        return found if found is not None and self._is_present(found) else None

    async def register(self) -> None:
        """Make this broker known, however long that takes."""
        await self._until_done("registered", lambda: self.broker is not None, self._register)
        await self._note()

    async def unfence(self) -> None:
        """Take part, however long that takes."""
        await self._until_done("unfenced", lambda: self._is_settled, self._step)

    async def run(self) -> None:
        """Register again and unfence whenever that is necessary, until cancelled."""
        while True:
            self._bell.clear()
            await self._note()
            if not self._is_settled:
                if not await self._tried(self._step):
                    await asyncio.sleep(_RETRY_SECONDS)
                continue
            await self._bell.wait()

    def close(self) -> None:
        """Ask for nothing any more: this broker is about to stop."""
        self._closed = True

    async def _until_done(
        self, what: str, done: Callable[[], bool], step: Callable[[], Awaitable[None]]
    ) -> None:
        loop = asyncio.get_running_loop()
        tell_at = loop.time() + _TELL_AFTER_SECONDS
        while not done():
            if await self._tried(step):
                continue
            if loop.time() >= tell_at:
                log.warning(
                    "this broker waits to be %s; the controller (broker %d) has not answered yet",
                    what,
                    self._control.controller_id,
                )
                tell_at = loop.time() + 10 * _TELL_AFTER_SECONDS
            await asyncio.sleep(_RETRY_SECONDS)

    @property
    def _is_settled(self) -> bool:
        broker = self.broker
        if self._closed:
            return True
        return broker is not None and not broker.fenced and not self._is_to_tell(broker)

    def _is_to_tell(self, broker: Broker) -> bool:
        """Whether the controller is to be told what this broker can read: an older one passed over it."""
        image = self._tail.image
        if image.version_of(broker) == METADATA_VERSION:
            return False
        controller = image.brokers.get(self._control.controller_id)
        understands = controller is not None and image.version_of(controller) > 1
        return self._control.is_active or understands

    async def _tried(self, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except InconsistentClusterId as error:
            raise StartError(str(error)) from error
        except (KafkaError, MetastoreError) as error:
            log.debug("registration is tried again: %s", error)
            return False
        return True

    async def _step(self) -> None:
        broker = self.broker
        if broker is None or self._is_to_tell(broker):
            await self._register()
        else:
            await self._control.heartbeat()

    async def _register(self) -> None:
        image = self._tail.image
        alone = self._control.is_active and image.live_brokers <= {self._record.broker_id}
        record = replace(self._record, incarnation=self._members.incarnation, fenced=not alone)
        await self._control.register(record, self._last_epoch)

    async def _note(self) -> None:
        """From here on this process knows what it has: to register again is not a restart."""
        broker = self.broker
        if broker is not None and broker.epoch != self._last_epoch:
            self._last_epoch = broker.epoch
            await self._registered(broker.epoch)

    def _is_present(self, broker: Broker) -> bool:
        return broker.incarnation == self._members.incarnation

    def _image_changed(self, _: Image, delta: Delta) -> None:
        if self._record.broker_id in delta.brokers or any(
            kind == VERSION for kind, _ in delta.configs
        ):
            self._bell.set()
