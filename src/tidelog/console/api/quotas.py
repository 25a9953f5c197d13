"""Quotas of users, client ids and addresses."""

from typing import Annotated

from pydantic import BaseModel, Field

from tidelog.console.api.asking import Asks, MayWrite, router
from tidelog.console.errors import bad_request
from tidelog.dataclass import dataclass

ROUTER = router("quotas")

_KINDS = ("user", "client-id", "ip")


@dataclass(frozen=True, slots=True)
class QuotaView:
    entity: dict[str, str | None]
    """`user`, `client-id` or `ip` to a name; null is the default of its kind."""
    limits: dict[str, float]


class QuotaChange(BaseModel):
    """Limits to be set; null takes one away."""

    entity: Annotated[
        dict[str, Annotated[str, Field(max_length=1000)] | None], Field(min_length=1, max_length=3)
    ]
    limits: Annotated[
        dict[
            Annotated[str, Field(max_length=200)],
            Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)] | None,
        ],
        Field(min_length=1, max_length=20),
    ]
    dry_run: bool = False


@ROUTER.get("/quotas")
async def list_quotas(clients: Asks) -> list[QuotaView]:
    """All quotas."""
    found = await clients.admin.describe_client_quotas()
    return [QuotaView(entity, limits) for entity, limits in found]


@ROUTER.post("/quotas", dependencies=[MayWrite])
async def alter_quota(body: QuotaChange, clients: Asks) -> QuotaView:
    """Set or take away limits of an entity."""
    for kind in body.entity:
        if kind not in _KINDS:
            raise bad_request(f"entity {kind!r} is none of {', '.join(_KINDS)}")
    await clients.admin.alter_client_quotas(body.entity, body.limits, validate_only=body.dry_run)
    given = {name: each for name, each in body.limits.items() if each is not None}
    return QuotaView(body.entity, given)
