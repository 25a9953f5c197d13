"""Asks the cluster's access rules whether a request may be served.

    authorizer.check(ctx.peer, READ, Resource(TOPIC, "orders"))       # raises TopicAuthorizationFailed
    authorizer.may(ctx.peer, DESCRIBE, Resource(TOPIC, name))         # for who leaves out what is not for the client's eyes

`OPEN` lets everybody do everything: a broker without `authorizer.class.name`.  A refusal is a line in the log
`tidelog.refused`, except for who leaves things out of a list and asks `quietly`; what a request asks for in vain many times
is one line (`Refused`).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from tidelog.cluster.image import Image
from tidelog.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from tidelog.network.peer import Peer
from tidelog.security.acls import Operation, Resource, ResourceType, Rules, plain_host
from tidelog.security.config import SecurityConfig

_NAMES_TOLD = 5
_NAME_TOLD = 249
"""Characters: no name that can be is longer."""

_refused = logging.getLogger("tidelog.refused")

_ERRORS: Mapping[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    ResourceType.USER: ClusterAuthorizationFailed,
}


def refusal(resource: Resource) -> KafkaError:
    """What is told to whoever may not do something to this resource."""
    return _ERRORS[resource.type]()


class Authorizer(Protocol):
    """See the module's docstring."""

    is_open: bool
    """Whether there is nothing to ask: everybody may do everything."""

    def may(
        self, peer: Peer, operation: Operation, resource: Resource, *, quietly: bool = False
    ) -> bool: ...

    def may_any(self, peer: Peer, operation: Operation, kind: ResourceType) -> bool: ...

    def check(self, peer: Peer, operation: Operation, resource: Resource) -> None: ...


class _Open:
    is_open = True

    def may(
        self, peer: Peer, operation: Operation, resource: Resource, *, quietly: bool = False
    ) -> bool:
        return True

    def may_any(self, peer: Peer, operation: Operation, kind: ResourceType) -> bool:
        return True

    def check(self, peer: Peer, operation: Operation, resource: Resource) -> None:
        return


OPEN: Authorizer = _Open()


class Refused:
    """What one request was refused, to be told in a line for each operation on a kind of resource."""

    __slots__ = ("_found", "_peer")

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._found: dict[tuple[Operation, ResourceType], tuple[list[str], list[int]]] = {}
        """The first names, and how many there are."""

    def add(self, operation: Operation, resource: Resource) -> None:
        names, count = self._found.setdefault((operation, resource.type), ([], [0]))
        count[0] += 1
        if len(names) < _NAMES_TOLD:
            names.append(resource.name)

    def tell(self) -> None:
        """The request is answered."""
        for (operation, kind), (names, count) in self._found.items():
            _tell(self._peer, operation, kind, names, count[0])
        self._found.clear()


def _tell(
    peer: Peer, operation: Operation, kind: ResourceType, names: list[str], count: int
) -> None:
    told = ", ".join(each[:_NAME_TOLD] for each in names)
    more = f" and {count - len(names)} more" if count > len(names) else ""
    _refused.info(
        "%s from %s may not %s %s %s%s",
        peer.principal,
        plain_host(peer.address.host),
        operation.name,
        kind.name.lower(),
        told,
        more,
    )


class AclAuthorizer:
    """Decides by the rules in the image; they are arranged anew when they change."""

    is_open = False

    def __init__(self, image: Callable[[], Image], config: Callable[[], SecurityConfig]) -> None:
        self._image = image
        self._config = config
        self._rules = Rules()
        self._made_of: tuple[object, object] | None = None

    def may(
        self, peer: Peer, operation: Operation, resource: Resource, *, quietly: bool = False
    ) -> bool:
        host = plain_host(peer.address.host)
        allowed = self._current().allows(str(peer.principal), host, operation, resource)
        if not allowed and not quietly:
            _tell(peer, operation, resource.type, [resource.name], 1)
        return allowed

    def may_any(self, peer: Peer, operation: Operation, kind: ResourceType) -> bool:
        host = plain_host(peer.address.host)
        return self._current().allows_any(str(peer.principal), host, operation, kind)

    def check(self, peer: Peer, operation: Operation, resource: Resource) -> None:
        if not self.may(peer, operation, resource):
            raise refusal(resource)

    def _current(self) -> Rules:
        access, config = self._image().access, self._config()
        if (
            self._made_of is None
            or self._made_of[0] is not access
            or self._made_of[1] is not config
        ):
            users = (each.strip() for each in config.super_users.split(";"))
            self._rules = Rules(
                access.acls,
                super_users=[each for each in users if each],
                allow_if_no_acl=config.allow_if_no_acl,
            )
            self._made_of = (access, config)
        return self._rules
