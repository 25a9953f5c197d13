"""Asks the cluster's access rules whether a request may be served.

    authorizer.check(ctx.peer, READ, Resource(TOPIC, "orders"))       # raises TopicAuthorizationFailed
    authorizer.may(ctx.peer, DESCRIBE, Resource(TOPIC, name))         # for who leaves out what is not for the client's eyes

`OPEN` lets everybody do everything: a broker without `authorizer.class.name`.  A refusal is one line in the log
`tidelog.refused`, except for who leaves things out of a list and asks `quietly`.
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

_refused = logging.getLogger("tidelog.refused")

_ERRORS: Mapping[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    ResourceType.USER: ClusterAuthorizationFailed,
}


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
            _refused.info(
                "%s from %s may not %s %s %s",
                peer.principal,
                host,
                operation.name,
                resource.type.name.lower(),
                resource.name,
            )
        return allowed

    def may_any(self, peer: Peer, operation: Operation, kind: ResourceType) -> bool:
        host = plain_host(peer.address.host)
        return self._current().allows_any(str(peer.principal), host, operation, kind)

    def check(self, peer: Peer, operation: Operation, resource: Resource) -> None:
        if not self.may(peer, operation, resource):
            raise _ERRORS[resource.type]

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
