"""What becomes of a request that meets a fault: it is failed, delayed, dropped, done without an answer, or held.

Imported when the first fault is ordered: a broker of tests that order none is ready sooner.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.broker.context import Services
from tidelog.broker.dispatch import Serving
from tidelog.errors import FetchSessionIdNotFound, KafkaError, ProtocolError, error_of
from tidelog.network.answer import Answer, Deferred, Ready
from tidelog.network.peer import Peer
from tidelog.protocol.codec import decode
from tidelog.protocol.error_answers import error_answer
from tidelog.protocol.frame import decode_response, encode_response
from tidelog.protocol.headers import RequestHeader, parse_request_header
from tidelog.protocol.messages import request_for
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.produce import ProduceRequest
from tidelog.protocol.schema import ZERO_UUID, Request, Struct
from tidelog.testing.faults import DELAY, DROP, FAIL, HOLD, LOSE, OWN_CLIENT_ID, Spec

if TYPE_CHECKING:
    from tidelog.testing.fault_table import Armed


class Striker:
    """Serves requests of which some meet a fault."""

    def __init__(
        self, inner: Serving, services: Services, struck: "Callable[[Armed], None]"
    ) -> None:
        """`struck` is told of each fault that a request meets."""
        self._inner = inner
        self._services = services
        self._struck = struck

    def serve(self, candidates: "Sequence[Armed]", peer: Peer, frame: memoryview) -> Answer:
        """The answer to a request whose API has faults."""
        header = parse_request_header(frame)
        cls = request_for(header.api_key)
        if (
            cls is None
            or header.api_version not in cls.versions
            or header.client_id == OWN_CLIENT_ID
        ):
            return self._inner.serve(peer, frame)
        # Copied, because a request that is delayed outlives the network's buffer.
        copy = memoryview(bytearray(frame))
        request, _ = decode(cls, copy, header.body_pos, header.api_version)
        if _from_broker(request):
            return self._inner.serve(peer, frame)
        for armed in candidates:
            if _needs_names(armed.spec, request):
                return _begin_again(header)
            if self._meets(armed.spec, header, request):
                return self._strike(armed, peer, copy, header, request)
        return self._inner.serve(peer, frame)

    def _meets(self, spec: Spec, header: RequestHeader, request: Request) -> bool:
        if spec.client_id is not None and header.client_id != spec.client_id:
            return False
        if spec.topic is None:
            return True
        return any(
            topic == spec.topic and (spec.partition is None or partition in (spec.partition, None))
            for topic, partition in self._places(request, header.api_version)
        )

    def _strike(
        self, armed: "Armed", peer: Peer, frame: memoryview, header: RequestHeader, request: Request
    ) -> Answer:
        self._struck(armed)
        kind = armed.spec.kind
        if kind == FAIL:
            return self._failed(error_of(armed.spec.code), peer, frame, header, request)
        if kind == DROP:
            raise ProtocolError("a fault of the test drops the request")
        if kind == LOSE:
            return _lost(self._inner.serve(peer, frame))
        if kind == DELAY:
            pause = partial(asyncio.sleep, armed.spec.delay_ms / 1000)
            return self._later(pause, peer, frame)
        assert kind == HOLD, kind
        return self._later(armed.released.wait, peer, frame)

    def _failed(
        self,
        error: KafkaError,
        peer: Peer,
        frame: memoryview,
        header: RequestHeader,
        request: Request,
    ) -> Answer:
        version = header.api_version
        if isinstance(request, ProduceRequest) and request.acks == 0:
            raise ProtocolError("a fault of the test; acks=0 leaves no other way to tell")
        if isinstance(request, MetadataRequest):
            # Without the brokers no client could go on, so the true answer is changed.
            return _changed(self._inner.serve(peer, frame), error, version)
        response = error_answer(request, version, error)
        if isinstance(request, ApiVersionsRequest):
            version = 0  # as KIP-511 has it: the client may not know the version that it asked in
        return encode_response(response, version, header.correlation_id)

    async def _later(
        self, wait: Callable[[], Awaitable[object]], peer: Peer, frame: memoryview
    ) -> Ready:
        await wait()
        return await _settled(self._inner.serve(peer, frame))

    def _places(self, struct: Struct, version: int) -> Iterator[tuple[str, int | None]]:
        """The topics and partitions that a request names."""
        for name in struct.__fields__:
            value = getattr(struct, name)
            if not isinstance(value, list):
                continue
            for each in value:
                if not isinstance(each, Struct):
                    continue
                topic = self._topic(each)
                if topic is None:
                    yield from self._places(each, version)
                    continue
                for partition in _partitions(each) or [None]:
                    yield topic, partition

    def _topic(self, struct: Struct) -> str | None:
        topic_id: UUID = getattr(struct, "topic_id", ZERO_UUID)
        if topic_id != ZERO_UUID:
            known = self._services.image().topic_by_id(topic_id)
            return known.name if known is not None else None
        return getattr(struct, "topic", None) or getattr(struct, "name", None)


def _partitions(struct: Struct) -> list[int | None]:
    found: list[int | None] = []
    for name in struct.__fields__:
        value = getattr(struct, name)
        if isinstance(value, list):
            for each in value:
                if isinstance(each, int):
                    found.append(each)
                    continue
                for called in ("partition_index", "partition", "index"):
                    if isinstance(each, Struct) and called in each.__fields__:
                        found.append(getattr(each, called))
    return found


def _from_broker(request: Request) -> bool:
    """Whether a follower asks."""
    if not isinstance(request, FetchRequest):
        return False
    return max(request.replica_id, request.replica_state.replica_id) >= 0


def _needs_names(spec: Spec, request: Request) -> bool:
    """Whether a fetch leaves out the partitions that its session knows (KIP-227), and the fault has to know them."""
    if not isinstance(request, FetchRequest) or request.session_epoch <= 0:
        return False
    return spec.kind == FAIL or spec.topic is not None


def _begin_again(header: RequestHeader) -> bytearray:
    """Let the client forget its session: the next fetch names its partitions."""
    response = FetchResponse(error_code=FetchSessionIdNotFound.code)
    return encode_response(response, header.api_version, header.correlation_id)


async def _settled(answer: Answer) -> Ready:
    """The answer itself, when it is there."""
    if isinstance(answer, Deferred):
        future: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()

        def take(ready: Ready | Exception) -> None:
            if future.done():
                return
            if isinstance(ready, Exception):
                future.set_exception(ready)
            else:
                future.set_result(ready)

        answer.then(take)
        return await future
    if inspect.isawaitable(answer):
        return await answer
    return answer


async def _lost(answer: Answer) -> Ready:
    """What was asked for is done, but nobody hears of it."""
    await _settled(answer)
    raise ProtocolError("a fault of the test loses the answer")


async def _changed(answer: Answer, error: KafkaError, version: int) -> Ready:
    ready = await _settled(answer)
    assert isinstance(ready, bytes | bytearray)
    correlation_id, response = decode_response(MetadataResponse, memoryview(ready)[4:], version)
    for topic in response.topics:
        topic.error_code, topic.partitions = error.code, []
    return encode_response(response, version, correlation_id)
