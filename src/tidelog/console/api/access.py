"""Who may do what: access rules and users with passwords.  A password goes in, and never comes out."""

from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tidelog.client.admin_security import Acl, AclFilter
from tidelog.console.api.asking import Asks, Confirmed, MayWrite, UserName, confirm, router
from tidelog.console.errors import not_found
from tidelog.dataclass import dataclass
from tidelog.errors import SecurityDisabled

ROUTER = router("access")

_MECHANISMS = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


class Rule(BaseModel):
    """One access rule, in Kafka's words."""

    resource_type: Literal[
        "topic", "group", "cluster", "transactional_id", "delegation_token", "user"
    ]
    resource_name: Annotated[str, Field(min_length=1, max_length=1000)]
    pattern_type: Literal["literal", "prefixed"] = "literal"
    principal: Annotated[str, Field(min_length=3, max_length=1000)]
    """Such as `User:alice`, or `User:*`."""
    operation: Literal[
        "all",
        "read",
        "write",
        "create",
        "delete",
        "alter",
        "describe",
        "cluster_action",
        "describe_configs",
        "alter_configs",
        "idempotent_write",
        "create_tokens",
        "describe_tokens",
    ]
    permission: Literal["allow", "deny"] = "allow"
    host: Annotated[str, Field(min_length=1, max_length=255)] = "*"


@dataclass(frozen=True, slots=True)
class RuleView:
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    operation: str
    permission: str
    host: str


@dataclass(frozen=True, slots=True)
class RulesRemoved:
    removed: int


@dataclass(frozen=True, slots=True)
class Access:
    enabled: bool
    """Whether the broker has access rules at all."""
    rules: list[RuleView]


@dataclass(frozen=True, slots=True)
class CredentialView:
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class UserView:
    user: str
    credentials: list[CredentialView]


class NewPassword(BaseModel):
    password: Annotated[
        str, Field(min_length=1, max_length=500, json_schema_extra={"format": "password"})
    ]
    mechanism: _MECHANISMS = "SCRAM-SHA-512"
    iterations: Annotated[int, Field(ge=4096, le=16_384)] = 8192


@ROUTER.get("/acls")
async def list_rules(clients: Asks) -> Access:
    """All access rules."""
    try:
        found = await clients.admin.describe_acls()
    except SecurityDisabled:
        return Access(False, [])
    return Access(True, sorted((_view(each) for each in found), key=_order))


@ROUTER.post("/acls", status_code=201, dependencies=[MayWrite])
async def add_rule(body: Rule, clients: Asks) -> RuleView:
    """Add an access rule."""
    acl = Acl(**body.model_dump())
    await clients.admin.create_acls([acl])
    return _view(acl)


@ROUTER.post("/acls/remove", dependencies=[MayWrite])
async def remove_rule(body: Rule, clients: Asks) -> RulesRemoved:
    """Take away exactly this access rule."""
    gone = await clients.admin.delete_acls(AclFilter(**body.model_dump()))
    if not gone:
        raise not_found("there is no such rule")
    return RulesRemoved(len(gone))


@ROUTER.get("/users")
async def list_users(clients: Asks) -> list[UserView]:
    """Users with passwords (SCRAM)."""
    found = await clients.admin.describe_scram_users()
    return [
        UserView(user, [CredentialView(each.mechanism, each.iterations) for each in credentials])
        for user, credentials in sorted(found.items())
    ]


@ROUTER.put("/users/{user}", dependencies=[MayWrite])
async def set_password(user: UserName, body: NewPassword, clients: Asks) -> UserView:
    """Add a user, or change the password; it is salted here and leaves this console only so."""
    await clients.admin.set_scram_password(
        user, body.password, mechanism=body.mechanism, iterations=body.iterations
    )
    return UserView(user, [CredentialView(body.mechanism, body.iterations)])


@ROUTER.delete("/users/{user}", dependencies=[MayWrite])
async def remove_user(
    user: UserName, confirmed: Confirmed, clients: Asks, mechanism: _MECHANISMS = "SCRAM-SHA-512"
) -> UserView:
    """Take away a user's password for a mechanism."""
    confirm(user, confirmed)
    await clients.admin.delete_scram_password(user, mechanism=mechanism)
    return UserView(user, [])


def _view(acl: Acl) -> RuleView:
    return RuleView(**asdict(acl))


def _order(rule: RuleView) -> tuple[str, ...]:
    return rule.principal, rule.resource_type, rule.resource_name, rule.operation
