"""One module an API: its request, its response and the structs they hold.

Modules are imported when their API is first asked for, so a broker that starts pays only for what its clients
use.  `MODULES` names them by API key; a test derives it again from the modules themselves.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import MappingProxyType

from ..schema import Message, Request

MODULES = MappingProxyType(
    {
        0: "produce",
        1: "fetch",
        2: "list_offsets",
        3: "metadata",
        8: "offset_commit",
        9: "offset_fetch",
        10: "find_coordinator",
        11: "join_group",
        12: "heartbeat",
        13: "leave_group",
        14: "sync_group",
        15: "describe_groups",
        16: "list_groups",
        17: "sasl_handshake",
        18: "api_versions",
        19: "create_topics",
        20: "delete_topics",
        21: "delete_records",
        22: "init_producer_id",
        23: "offset_for_leader_epoch",
        24: "add_partitions_to_txn",
        25: "add_offsets_to_txn",
        26: "end_txn",
        27: "write_txn_markers",
        28: "txn_offset_commit",
        29: "describe_acls",
        30: "create_acls",
        31: "delete_acls",
        32: "describe_configs",
        33: "alter_configs",
        34: "alter_replica_log_dirs",
        35: "describe_log_dirs",
        36: "sasl_authenticate",
        37: "create_partitions",
        38: "create_delegation_token",
        39: "renew_delegation_token",
        40: "expire_delegation_token",
        41: "describe_delegation_token",
        42: "delete_groups",
        43: "elect_leaders",
        44: "incremental_alter_configs",
        45: "alter_partition_reassignments",
        46: "list_partition_reassignments",
        47: "offset_delete",
        48: "describe_client_quotas",
        49: "alter_client_quotas",
        50: "describe_user_scram_credentials",
        51: "alter_user_scram_credentials",
        55: "describe_quorum",
        56: "alter_partition",
        57: "update_features",
        58: "envelope",
        60: "describe_cluster",
        61: "describe_producers",
        62: "broker_registration",
        63: "broker_heartbeat",
        64: "unregister_broker",
        65: "describe_transactions",
        66: "list_transactions",
        67: "allocate_producer_ids",
        68: "consumer_group_heartbeat",
        69: "consumer_group_describe",
        71: "get_telemetry_subscriptions",
        72: "push_telemetry",
        73: "assign_replicas_to_dirs",
        74: "list_config_resources",
        75: "describe_topic_partitions",
    }
)


@cache
def request_for(api_key: int) -> type[Request] | None:
    """The request class of an API; None if we do not know the API."""
    name = MODULES.get(api_key)
    if name is None:
        return None
    for found in _messages_in(name):
        if issubclass(found, Request):
            return found
    raise AssertionError(f"{name} declares no request")


def all_messages() -> Iterator[type[Message]]:
    """Every message there is; imports every module."""
    from pkgutil import iter_modules  # not needed by a broker, so it should not pay for it

    for info in iter_modules(__path__):
        yield from _messages_in(info.name)


def _messages_in(name: str) -> list[type[Message]]:
    module = import_module(f"{__name__}.{name}")
    return [
        found
        for found in vars(module).values()
        if isinstance(found, type)
        and issubclass(found, Message)
        and found.__module__ == module.__name__
    ]
