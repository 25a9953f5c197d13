"""Who writes: the instances are members of a group with protocol "sr", as those of Confluent's registry are.

Each says where it can be reached; the group's leader names the member with the smallest address as the writer and tells
all.  A member that is killed is out after the session timeout, one that leaves at once; one that is started again at its
old address takes its old place without waiting (static members, KIP-345).  What this gives is one writer *nearly always*;
that a former one can do no harm is the business of `writer`.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, cast

from tidelog.client.cluster import Cluster, note_coordinator_error
from tidelog.dataclass import dataclass
from tidelog.errors import (
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    error_of,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_log = logging.getLogger(__name__)

_PROTOCOL_TYPE, _PROTOCOL = "sr", "v0"


@dataclass(frozen=True, slots=True)
class Leader:
    """The writer: where it is, and whether it is this instance."""

    url: str
    is_me: bool


class Election:
    """One instance's membership; `changed` hears of every new leader, None while there is none."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        host: str,
        port: int,
        *,
        scheme: str = "http",
        session_timeout_ms: int,
        changed: Callable[[Leader | None], None],
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._identity = {
            "version": 1,
            "host": host,
            "port": port,
            "master_eligibility": True,
            "scheme": scheme,
        }
        self._url = _url(self._identity)
        self._session_timeout_ms = session_timeout_ms
        self._changed = changed
        self._member_id = ""
        self._generation = -1
        self._task: asyncio.Task[None] | None = None
        self.leader: Leader | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Leave, so that the others need not wait."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._elected(None)
        if self._member_id:
            member = MemberIdentity(
                member_id=self._member_id,
                group_instance_id=self._url,
                reason="the registry stops",
            )
            request = LeaveGroupRequest(
                group_id=self._group, member_id=self._member_id, members=[member]
            )
            try:
                await self._ask(request, timeout_s=3)
            except KafkaError as error:
                _log.debug("leaving group %s: %s", self._group, error)

    async def confirm(self) -> bool:
        """Ask the coordinator now whether this instance still belongs; True if it leads as well."""
        try:
            await self._beat_once()
        except RebalanceInProgress:
            pass
        except KafkaError:
            return False
        return self.leader is not None and self.leader.is_me

    async def _run(self) -> None:
        pauses = iter(self._cluster.pauses())
        while True:
            try:
                await self._join_and_sync()
                pauses = iter(self._cluster.pauses())
                await self._beat()
            except KafkaError as error:
                note_coordinator_error(self._cluster, self._group, error.code)
                if isinstance(error, RebalanceInProgress):
                    continue
                self._elected(None)
                self._generation = -1
                if isinstance(error, UnknownMemberId | FencedInstanceId):
                    self._member_id = ""
                if isinstance(error, FencedInstanceId):
                    _log.error(
                        "another registry of group %s has the address %s", self._group, self._url
                    )
                    await asyncio.sleep(self._session_timeout_ms / 1000)
                elif not (
                    error.retriable or isinstance(error, UnknownMemberId | IllegalGeneration)
                ):
                    _log.warning("group %s: %s; trying again", self._group, error)
            except Exception:  # noqa: BLE001 - the task's root
                _log.exception("the election failed in a way that was not expected")
                self._elected(None)
            await asyncio.sleep(next(pauses))

    async def _join_and_sync(self) -> None:
        joined = await self._join()
        shares: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            told = _assignment(joined)
            shares = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=told)
                for each in joined.members
            ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._url,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=shares,
        )
        answer = cast(SyncGroupResponse, await self._ask(request, timeout_s=self._wait_s))
        self._check(answer.error_code)
        self._elected(_leader_in(answer.assignment, self._url))

    async def _join(self) -> JoinGroupResponse:
        metadata = json.dumps(self._identity, separators=(",", ":")).encode()
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=self._session_timeout_ms,
                # A member that is gone holds the others up no longer than its session lasts.
                rebalance_timeout_ms=self._session_timeout_ms,
                member_id=self._member_id,
                group_instance_id=self._url,
                protocol_type=_PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
            )
            answer = cast(JoinGroupResponse, await self._ask(request, timeout_s=self._wait_s))
            if answer.error_code == MemberIdRequired.code:
                self._member_id = answer.member_id
                continue
            self._check(answer.error_code)
            self._member_id, self._generation = answer.member_id, answer.generation_id
            return answer

    @property
    def _wait_s(self) -> float:
        return self._session_timeout_ms / 1000 + 10

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        session_s = self._session_timeout_ms / 1000
        heard = loop.time()
        while True:
            await asyncio.sleep(session_s / 5)
            try:
                await self._beat_once(session_s / 2)
                heard = loop.time()
            except KafkaError as error:
                note_coordinator_error(self._cluster, self._group, error.code)
                # The coordinator may be away for a moment; when the session is over, so is our part in it.
                if not error.retriable or loop.time() - heard > session_s:
                    raise

    async def _beat_once(self, timeout_s: float | None = None) -> None:
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._url,
        )
        answer = cast(HeartbeatResponse, await self._ask(request, timeout_s=timeout_s))
        self._check(answer.error_code)

    async def _ask(self, request: Any, *, timeout_s: float | None = None) -> Any:
        return await self._cluster.ask_coordinator(self._group, request, timeout_s=timeout_s)

    def _check(self, code: int) -> None:
        if code:
            raise error_of(code, f"group {self._group!r}: {error_of(code).text}")

    def _elected(self, leader: Leader | None) -> None:
        if leader != self.leader:
            self.leader = leader
            self._changed(leader)


def _assignment(joined: JoinGroupResponse) -> bytes:
    """What the group's leader tells everybody."""
    members: list[tuple[str, str, dict[str, Any]]] = []
    for each in joined.members:
        try:
            identity = json.loads(each.metadata)
            if identity["master_eligibility"]:
                members.append((_url(identity), each.member_id, identity))
        except (ValueError, KeyError, TypeError):
            _log.warning("group member %s says nothing sensible of itself", each.member_id)
    told: dict[str, Any] = {"version": 1, "error": 0}
    if members:
        _, member_id, identity = min(members, key=lambda each: each[:2])
        told |= {"master": member_id, "master_identity": identity}
    return json.dumps(told, separators=(",", ":")).encode()


def _leader_in(assignment: bytes, own_url: str) -> Leader | None:
    try:
        told = json.loads(assignment)
        if not told.get("master"):
            return None
        # By address: an instance that came back has another member id than the assignment says.
        url = _url(told["master_identity"])
        return Leader(url, url == own_url)
    except (ValueError, KeyError, TypeError, AttributeError):
        _log.warning("the group's leader sent an assignment that cannot be read")
        return None


def _url(identity: dict[str, Any]) -> str:
    host = str(identity["host"])
    shown = f"[{host}]" if ":" in host else host
    return f"{identity.get('scheme') or 'http'}://{shown}:{int(identity['port'])}"
