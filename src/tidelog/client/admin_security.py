"""Who may do what and how much of it: ACLs, users with passwords (SCRAM), quotas.

Resource types, pattern types, operations and permissions are texts as Kafka's tools print them: `"topic"`, `"prefixed"`,
`"read"`, `"allow"`; case does not matter.  A password never leaves the client: what is sent is salted.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from tidelog.client.closing import Closing
from tidelog.client.cluster import Cluster
from tidelog.dataclass import dataclass
from tidelog.errors import ResourceNotFound, error_of
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tidelog.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tidelog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tidelog.security.scram import ITERATIONS, SALT_BYTES

# Kafka's numbers: the place in the list (ResourceType, PatternType, AclOperation, AclPermissionType).
_RESOURCES = ["unknown", "any", "topic", "group", "cluster", "transactional_id"]
_RESOURCES += ["delegation_token", "user"]
_PATTERNS = ["unknown", "any", "match", "literal", "prefixed"]
_OPERATIONS = ["unknown", "any", "all", "read", "write", "create", "delete", "alter", "describe"]
_OPERATIONS += ["cluster_action", "describe_configs", "alter_configs", "idempotent_write"]
_OPERATIONS += ["create_tokens", "describe_tokens", "two_phase_commit"]
_PERMISSIONS = ["unknown", "any", "deny", "allow"]

_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}

_EXACT, _DEFAULT, _ANY = 0, 1, 2

F = TypeVar("F", DescribeAclsRequest, DeleteAclsFilter)

Entity = Mapping[str, str | None]
"""`user`, `client-id` or `ip` to a name; None is the default of its kind."""


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule: who may, or may not, do what to which resource, from where."""

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission: str = "allow"
    host: str = "*"
    pattern_type: str = "literal"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Rules that agree with everything that is given."""

    resource_type: str = "any"
    resource_name: str | None = None
    principal: str | None = None
    operation: str = "any"
    permission: str = "any"
    host: str | None = None
    pattern_type: str = "any"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """How a user's password is kept."""

    mechanism: str
    iterations: int


class AsyncSecurityAdmin(Closing):
    """The part of the admin client that is about permissions, users and quotas."""

    _cluster: Cluster

    # Permissions.

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add rules."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=_number(_RESOURCES, each.resource_type),
                    resource_name=each.resource_name,
                    resource_pattern_type=_number(_PATTERNS, each.pattern_type),
                    principal=each.principal,
                    host=each.host,
                    operation=_number(_OPERATIONS, each.operation),
                    permission_type=_number(_PERMISSIONS, each.permission),
                )
                for each in acls
            ]
        )
        answer = await self._cluster.retrying(lambda: self._cluster.ask_controller(request))
        for result in cast(CreateAclsResponse, answer).results:
            _raise(result.error_code, result.error_message)

    async def describe_acls(self, which: AclFilter | None = None) -> list[Acl]:
        """The rules that pass the filter, or all."""
        request = _filter(DescribeAclsRequest, which or AclFilter())
        answer = cast(
            DescribeAclsResponse,
            await self._cluster.retrying(lambda: self._cluster.ask_any(request)),
        )
        _raise(answer.error_code, answer.error_message)
        return [_acl(resource, rule) for resource in answer.resources for rule in resource.acls]

    async def delete_acls(self, which: AclFilter) -> list[Acl]:
        """Delete the rules that pass the filter, and return them."""
        request = DeleteAclsRequest(filters=[_filter(DeleteAclsFilter, which)])
        answer = await self._cluster.retrying(lambda: self._cluster.ask_controller(request))
        result = cast(DeleteAclsResponse, answer).filter_results[0]
        _raise(result.error_code, result.error_message)
        for rule in result.matching_acls:
            _raise(rule.error_code, rule.error_message)
        return [_acl(rule, rule) for rule in result.matching_acls]

    # Users.

    async def describe_scram_users(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredential]]:
        """These users, or all, with the mechanisms they can log in with."""
        wanted = None if users is None else [UserName(name=each) for each in users]
        request = DescribeUserScramCredentialsRequest(users=wanted)
        answer = cast(
            DescribeUserScramCredentialsResponse,
            await self._cluster.retrying(lambda: self._cluster.ask_any(request)),
        )
        _raise(answer.error_code, answer.error_message)
        names = {number: name for name, (number, _) in _MECHANISMS.items()}
        found: dict[str, list[ScramCredential]] = {}
        for each in answer.results:
            if each.error_code == ResourceNotFound.code:
                continue
            _raise(each.error_code, f"user {each.user!r}: {each.error_message}")
            found[each.user] = [
                ScramCredential(names.get(one.mechanism, "unknown"), one.iterations)
                for one in each.credential_infos
            ]
        return found

    async def set_scram_password(
        self,
        user: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = ITERATIONS,
    ) -> None:
        """Let a user log in with this password; the one that it had for the mechanism is replaced."""
        number, digest = _mechanism(mechanism)
        salt = secrets.token_bytes(SALT_BYTES)
        upsertion = ScramCredentialUpsertion(
            name=user,
            mechanism=number,
            iterations=iterations,
            salt=salt,
            salted_password=hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations),
        )
        await self._alter_scram(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    async def delete_scram_password(self, user: str, *, mechanism: str = "SCRAM-SHA-512") -> None:
        """Take away a user's password for this mechanism."""
        deletion = ScramCredentialDeletion(name=user, mechanism=_mechanism(mechanism)[0])
        await self._alter_scram(AlterUserScramCredentialsRequest(deletions=[deletion]))

    # Quotas.

    async def describe_client_quotas(
        self, entity: Entity | None = None, *, strict: bool = False
    ) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """Quotas of this entity, or of all; strict leaves out those that have other parts as well.

        A name of `"*"` means every entity of that kind.
        """
        components = [
            ComponentData(
                entity_type=kind,
                match_type=_DEFAULT if name is None else _ANY if name == "*" else _EXACT,
                match=None if name in (None, "*") else name,
            )
            for kind, name in (entity or {}).items()
        ]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        answer = cast(
            DescribeClientQuotasResponse,
            await self._cluster.retrying(lambda: self._cluster.ask_any(request)),
        )
        _raise(answer.error_code, answer.error_message)
        return [
            (
                {part.entity_type: part.entity_name for part in each.entity},
                {value.key: value.value for value in each.values},
            )
            for each in answer.entries or ()
        ]

    async def alter_client_quotas(
        self,
        entity: Entity,
        changes: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas (`producer_byte_rate`, `consumer_byte_rate`, `request_percentage`); None takes one away."""
        entry = EntryData(
            entity=[
                EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
            ],
            ops=[
                OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in changes.items()
            ],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        answer = await self._cluster.retrying(lambda: self._cluster.ask_controller(request))
        for each in cast(AlterClientQuotasResponse, answer).entries:
            _raise(each.error_code, each.error_message)

    async def _alter_scram(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = await self._cluster.retrying(lambda: self._cluster.ask_controller(request))
        for each in cast(AlterUserScramCredentialsResponse, answer).results:
            _raise(each.error_code, f"user {each.user!r}: {each.error_message}")


def _filter(message: type[F], which: AclFilter) -> F:
    return message(
        resource_type_filter=_number(_RESOURCES, which.resource_type),
        resource_name_filter=which.resource_name,
        pattern_type_filter=_number(_PATTERNS, which.pattern_type),
        principal_filter=which.principal,
        host_filter=which.host,
        operation=_number(_OPERATIONS, which.operation),
        permission_type=_number(_PERMISSIONS, which.permission),
    )


def _acl(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl,
    rule: AclDescription | DeleteAclsMatchingAcl,
) -> Acl:
    return Acl(
        _RESOURCES[resource.resource_type],
        resource.resource_name,
        rule.principal,
        _OPERATIONS[rule.operation],
        _PERMISSIONS[rule.permission_type],
        rule.host,
        _PATTERNS[resource.pattern_type],
    )


def _number(names: list[str], name: str) -> int:
    plain = name.lower().replace("-", "_")
    if plain not in names:
        raise ValueError(f"{name!r} is not one of {', '.join(names[1:])}")
    return names.index(plain)


def _mechanism(name: str) -> tuple[int, str]:
    if name.upper() not in _MECHANISMS:
        raise ValueError(f"{name!r} is not one of {', '.join(_MECHANISMS)}")
    return _MECHANISMS[name.upper()]


def _raise(code: int, message: str | None) -> None:
    if code:
        raise error_of(code, message)
