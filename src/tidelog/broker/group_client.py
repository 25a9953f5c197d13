"""What the group handlers share: the client as the coordinator knows it, and what it may do to a group."""

from tidelog.broker.context import Context
from tidelog.broker.operations import Operation
from tidelog.coordination.groups.environment import Client

GROUP_OPERATIONS = 1 << Operation.READ | 1 << Operation.DELETE | 1 << Operation.DESCRIBE
"""Everybody may do everything yet."""


def client_of(ctx: Context) -> Client:
    """Kafka writes a client's host with a slash, as Java prints an address."""
    return Client(ctx.client_id or "", f"/{ctx.peer.address.host}", ctx.api_version)
