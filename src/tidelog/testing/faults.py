"""Faults that a test orders from a broker, and that any client then meets.

    faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=3)   # the next three are answered with the error
    faults.delay("Fetch", 0.5)                                  # the next is served half a second later
    faults.drop("Metadata")                                     # its connection is closed instead of an answer
    faults.drop_answer("Produce")                               # it is done, but the answer is lost
    with faults.freeze(topic, 0): ...                           # nothing goes in or out of the partition

An API is named as Kafka does ("OffsetCommit"), an error by its class, its name or its number.  `topic` and `client_id` narrow
a fault down to the requests of that topic or client; `times=None` is until `end()`.  What is ordered first strikes first.
All faults end with their test.
"""

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Self

from tidelog import errors
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError
from tidelog.protocol.messages import MODULES, request_for

if TYPE_CHECKING:
    from tidelog.testing.fixture_broker import FixtureBroker

Error = type[KafkaError] | KafkaError | str | int

FAIL, DELAY, DROP, LOSE, HOLD = "fail", "delay", "drop", "lose", "hold"

OWN_CLIENT_ID = "tidelog-fixture"
"""Clients of this name are spared: they are the fixture's."""

_LOOK_AGAIN_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What is to happen, and to which requests; made of plain values, so that it can be sent to another process."""

    kind: str
    api_keys: tuple[int, ...]
    times: int | None = 1
    """How many requests it strikes; None without end."""
    code: int = 0
    delay_ms: float = 0.0
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None


class Fault:
    """One fault that was ordered; as a context manager it ends with the block."""

    def __init__(self, broker: "FixtureBroker", number: int, times: int | None) -> None:
        self._broker = broker
        self._number = number
        self._times = times

    @property
    def struck(self) -> int:
        """How many requests have met it."""
        struck: int = self._broker.call("struck", number=self._number)
        return struck

    def wait(self, times: int | None = None, *, timeout: float = 10.0) -> Self:
        """Return when it has struck so often (as often as was ordered); `TimeoutError` if it does not."""
        wanted = times or self._times or 1
        deadline = time.monotonic() + timeout
        while (struck := self.struck) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"the fault has struck {struck} of {wanted} times in {timeout:g} s"
                )
            time.sleep(_LOOK_AGAIN_S)
        return self

    def end(self) -> None:
        """Strike no more, and let go of what is held."""
        self._broker.call("disarm", number=self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._broker.running:  # a broker that was killed has forgotten it
            self.end()


class Faults:
    """Orders faults from one broker."""

    def __init__(self, broker: "FixtureBroker") -> None:
        self._broker = broker

    def fail(
        self,
        api: str,
        error: Error,
        *,
        times: int | None = 1,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Answer the next requests with an error; nothing of what they ask for is done."""
        code = code_of(error)
        return self._arm(FAIL, [api], times, topic=topic, client_id=client_id, code=code)

    def delay(
        self,
        api: str,
        seconds: float,
        *,
        times: int | None = 1,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Serve the next requests so much later; `advance` lets that time pass too."""
        return self._arm(
            DELAY, [api], times, topic=topic, client_id=client_id, delay_ms=seconds * 1000
        )

    def drop(
        self,
        api: str,
        *,
        times: int | None = 1,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Close the connections of the next requests; nothing of what they ask for is done."""
        return self._arm(DROP, [api], times, topic=topic, client_id=client_id)

    def drop_answer(
        self,
        api: str,
        *,
        times: int | None = 1,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Do what the next requests ask for, then close their connections: the client cannot know."""
        return self._arm(LOSE, [api], times, topic=topic, client_id=client_id)

    def freeze(self, topic: str, partition: int = 0) -> Fault:
        """Hold all produces and fetches that name the partition until the fault ends, as if its disk hung."""
        return self._arm(HOLD, ["Produce", "Fetch"], None, topic=topic, partition=partition)

    def clear(self) -> None:
        """End all faults, and let go of everything."""
        self._broker.call("clear")

    def _arm(
        self,
        kind: str,
        apis: Iterable[str],
        times: int | None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        code: int = 0,
        delay_ms: float = 0.0,
    ) -> Fault:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: how many requests shall it strike? None is all")
        spec = Spec(
            kind=kind,
            api_keys=tuple(map(api_key_of, apis)),
            times=times,
            topic=topic,
            partition=partition,
            client_id=client_id,
            code=code,
            delay_ms=delay_ms,
        )
        return Fault(self._broker, self._broker.call("arm", spec=asdict(spec)), times)


def api_key_of(name: str) -> int:
    """The key of an API by Kafka's name, whatever its case."""
    plain = _plain(name)
    for key, module in MODULES.items():
        if _plain(module) == plain:
            return key
    raise ValueError(f"there is no API {name!r}{_meant(name, _api_names())}")


def code_of(error: Error) -> int:
    """The code of an error that is given by class, name or number."""
    if isinstance(error, int):
        return error
    if isinstance(error, str):
        known = {_plain(name): each for name, each in _errors().items()}
        if _plain(error) not in known:
            raise ValueError(f"there is no error {error!r}{_meant(error, _errors())}")
        return known[_plain(error)].code
    if isinstance(error, KafkaError) or issubclass(error, KafkaError):
        return error.code
    raise ValueError(f"{error!r} is no error of Kafka's protocol")


def _errors() -> dict[str, type[KafkaError]]:
    return {
        name: each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, KafkaError) and each is not KafkaError
    }


def _api_names() -> list[str]:
    requests = filter(None, map(request_for, MODULES))
    return sorted(each.__name__.removesuffix("Request") for each in requests)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _meant(word: str, known: Iterable[str]) -> str:
    import difflib  # only when something is wrong

    plain = {_plain(each): each for each in known}
    longer = sorted(each for each in plain if each.startswith(_plain(word)))
    close = longer or difflib.get_close_matches(_plain(word), plain, 1)
    return f"; did you mean {plain[close[0]]!r}?" if close else ""
