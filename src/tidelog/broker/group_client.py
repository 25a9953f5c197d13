"""The client, as the group handlers tell it to the coordinator."""

from tidelog.broker.context import Context
from tidelog.coordination.groups.environment import Client


def client_of(ctx: Context) -> Client:
    """Kafka writes a client's host with a slash, as Java prints an address."""
    return Client(ctx.client_id or "", f"/{ctx.peer.address.host}", ctx.api_version)
