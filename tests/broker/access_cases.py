"""For every API a request, what it takes to be allowed, and what anybody else is told.

The world of the cases: topic `orders` (one record), which the group `readers` has read, and the transactional id
`payments`.  What a case destroys is its own.
"""

from dataclasses import dataclass, field
from typing import Any, get_args

from hot_path import batch

from tidelog.protocol.frame import LENGTH_BYTES, encode_request
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.schema import Request, Struct
from tidelog.security.acls import CLUSTER, Operation, Resource

TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, TRANSACTION_REFUSED = 29, 30, 31, 53
NOT_ATTEMPTED, UNKNOWN_TOPIC_ID = 55, 100
AUTHORISATION = frozenset({TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, TRANSACTION_REFUSED})

Need = tuple[Operation, Resource]

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
ORDERS, READERS = Resource.topic("orders"), Resource.group("readers")
PAYMENTS = Resource.transaction("payments")


@dataclass(frozen=True)
class Case:
    """One API."""

    api: str
    body: dict[str, Any]
    needs: tuple[Need, ...]
    """All of these."""
    refused: int
    """What is told without any of them; 0 where things are left out of the answer."""
    version: int | None = None
    """The highest that is served, unless told."""
    shows: str = ""
    """What only who is allowed finds in the answer."""
    also: frozenset[int] = field(default=frozenset())
    """Codes that come with a refusal."""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.api}-{self.name}" if self.name else self.api


def made(kind: type[Struct], values: dict[str, Any]) -> Any:
    """A message from plain dictionaries."""
    given = {}
    for name, value in values.items():
        hint = kind.__fields__[name].hint
        element = get_args(hint)[0] if get_args(hint) else hint
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = [made(element, each) for each in value]
        given[name] = value
    return kind(**given)


def codes(answer: Any) -> set[int]:
    """Every error code in an answer."""
    found: set[int] = set()
    for name in answer.__fields__:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.add(value)
        elif isinstance(value, Struct):
            found |= codes(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    found |= codes(each)
    return found - {0}


def wrapped(name: str) -> bytes:
    inner: Request = made(CreateTopicsRequest, {"topics": [{"name": name, "num_partitions": 1}]})
    return bytes(encode_request(inner, 7, 1, "c")[LENGTH_BYTES:])


_PART = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
_COMMIT = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
RULE = {
    "resource_type": 2, "resource_name": "x", "principal": "User:x", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip
_EVERY_RULE = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
_NO_RULE = _EVERY_RULE | {"principal_filter": "User:nobody"}
QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "x"}],
    "ops": [{"key": "producer_byte_rate", "value": 1e6}],
}
SCRAM = {
    "name": "x", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32,
}  # fmt: skip


def _config(kind: int, name: str, **rest: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, **rest}]}


def _setting(**rest: Any) -> list[dict[str, Any]]:
    return [{"name": "retention.ms", "value": "1000000", **rest}]


CASES = [
    # ------------------------------------------------------------------ records
    Case(
        "Produce",
        {"acks": -1, "timeout_ms": 5000, "topic_data": [
            {"name": "orders", "partition_data": [{"index": 0, "records": bytes(batch())}]}]},
        ((WRITE, ORDERS),), TOPIC_REFUSED,
    ),
    Case(
        "Produce",
        {"acks": -1, "timeout_ms": 5000, "transactional_id": "payments", "topic_data": [
            {"name": "orders", "partition_data": [{"index": 0, "records": bytes(batch())}]}]},
        ((WRITE, PAYMENTS), (WRITE, ORDERS)), TRANSACTION_REFUSED, name="in a transaction",
        also=frozenset({TOPIC_REFUSED}),
    ),
    Case(
        "Fetch",
        {"max_wait_ms": 0, "max_bytes": 1 << 20, "topics": [
            {"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}]},
        ((READ, ORDERS),), TOPIC_REFUSED, version=12, shows="a secret order",
    ),
    Case(
        "Fetch",
        {"replica_id": 1, "max_wait_ms": 0, "max_bytes": 1 << 20, "topics": [
            {"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}]},
        ((ACTION, CLUSTER),), TOPIC_REFUSED, version=12, name="as a replica",
    ),
    Case(
        "ListOffsets",
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -2}]}]},
        ((DESCRIBE, ORDERS),), TOPIC_REFUSED,
    ),
    Case(
        "OffsetForLeaderEpoch",
        {"replica_id": -1, "topics": [
            {"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        ((DESCRIBE, ORDERS),), TOPIC_REFUSED,
    ),
    Case(
        "DeleteRecords",
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]}]},
        ((DELETE, ORDERS),), TOPIC_REFUSED,
    ),
    Case(
        "DescribeProducers", {"topics": [{"name": "orders", "partition_indexes": [0]}]},
        ((READ, ORDERS),), TOPIC_REFUSED,
    ),
    # ------------------------------------------------------------------ topics
    Case(
        "Metadata", {"topics": [{"name": "orders"}]}, ((DESCRIBE, ORDERS),), TOPIC_REFUSED,
        shows="partition_index=0",
    ),
    Case("Metadata", {"topics": None}, ((DESCRIBE, ORDERS),), 0, shows="orders", name="of all"),
    Case(
        "Metadata", {"topics": [{"name": "made-by-asking"}], "allow_auto_topic_creation": True},
        ((DESCRIBE, Resource.topic("made-by-asking")), (CREATE, Resource.topic("made-by-asking"))),
        TOPIC_REFUSED, name="that makes a topic",
    ),
    Case(
        "DescribeTopicPartitions", {"topics": [{"name": "orders"}], "response_partition_limit": 9},
        ((DESCRIBE, ORDERS),), TOPIC_REFUSED, shows="leader_id=1",
    ),
    Case(
        "DescribeTopicPartitions", {"response_partition_limit": 9}, ((DESCRIBE, ORDERS),), 0,
        shows="orders", name="of all",
    ),
    Case(
        "CreateTopics",
        {"topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1}],
         "validate_only": True},
        ((CREATE, Resource.topic("made")), (DESCRIBE_CONFIGS, Resource.topic("made"))),
        TOPIC_REFUSED, shows="retention.ms",
    ),
    Case(
        "CreateTopics",
        {"topics": [{"name": "also-made", "num_partitions": 1, "replication_factor": 1}],
         "validate_only": True},
        ((CREATE, CLUSTER), (DESCRIBE_CONFIGS, Resource.topic("also-made"))), TOPIC_REFUSED,
        name="by the cluster's rule",
    ),
    Case(
        "DeleteTopics", {"topics": [{"name": "not-there"}]},
        ((DELETE, Resource.topic("not-there")),), TOPIC_REFUSED,
    ),
    Case(
        "CreatePartitions", {"topics": [{"name": "orders", "count": 2}], "validate_only": True},
        ((ALTER, ORDERS),), TOPIC_REFUSED,
    ),
    Case("DescribeConfigs", _config(2, "orders", configuration_keys=None),
         ((DESCRIBE_CONFIGS, ORDERS),), TOPIC_REFUSED, shows="retention.ms"),
    Case("DescribeConfigs", _config(4, "1", configuration_keys=None),
         ((DESCRIBE_CONFIGS, CLUSTER),), CLUSTER_REFUSED, shows="log.dirs", name="of a broker"),
    Case("DescribeConfigs", _config(8, "1", configuration_keys=None),
         ((DESCRIBE_CONFIGS, CLUSTER),), CLUSTER_REFUSED, shows="tidelog.broker", name="of loggers"),
    Case("AlterConfigs", _config(2, "orders", configs=_setting()),
         ((ALTER_CONFIGS, ORDERS),), TOPIC_REFUSED),
    Case("IncrementalAlterConfigs", _config(2, "orders", configs=_setting(config_operation=0)),
         ((ALTER_CONFIGS, ORDERS),), TOPIC_REFUSED),
    Case("IncrementalAlterConfigs", _config(4, "", configs=[]),
         ((ALTER_CONFIGS, CLUSTER),), CLUSTER_REFUSED, name="of brokers"),
    Case("IncrementalAlterConfigs", _config(8, "1", configs=[]),
         ((ALTER_CONFIGS, CLUSTER),), CLUSTER_REFUSED, name="of loggers"),
    Case("ListConfigResources", {"resource_types": [2]}, ((DESCRIBE_CONFIGS, CLUSTER),),
         CLUSTER_REFUSED, shows="orders"),
    # ------------------------------------------------------------------ groups
    Case("FindCoordinator", {"key_type": 0, "coordinator_keys": ["readers"]},
         ((DESCRIBE, READERS),), GROUP_REFUSED, shows="127.0.0.1"),
    Case("FindCoordinator", {"key_type": 1, "coordinator_keys": ["payments"]},
         ((DESCRIBE, PAYMENTS),), TRANSACTION_REFUSED, shows="127.0.0.1", name="of a transaction"),
    Case(
        "JoinGroup",
        {"group_id": "readers", "session_timeout_ms": 10_000, "protocol_type": "consumer",
         "protocols": [{"name": "range", "metadata": b""}]},
        ((READ, READERS),), GROUP_REFUSED,
    ),
    Case("SyncGroup", {"group_id": "readers", "member_id": "m"}, ((READ, READERS),), GROUP_REFUSED),
    Case("Heartbeat", {"group_id": "readers", "member_id": "m"}, ((READ, READERS),), GROUP_REFUSED),
    Case("LeaveGroup", {"group_id": "readers", "members": [{"member_id": "m"}]},
         ((READ, READERS),), GROUP_REFUSED),
    Case(
        "ConsumerGroupHeartbeat",
        {"group_id": "modern", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000,
         "subscribed_topic_names": ["orders"], "topic_partitions": []},
        ((READ, Resource.group("modern")), (DESCRIBE, ORDERS)), GROUP_REFUSED,
    ),
    Case("ConsumerGroupDescribe", {"group_ids": ["readers"]}, ((DESCRIBE, READERS),), GROUP_REFUSED),
    Case("DescribeGroups", {"groups": ["readers"]}, ((DESCRIBE, READERS),), GROUP_REFUSED,
         shows="Empty"),
    Case("ListGroups", {}, ((DESCRIBE, READERS),), 0, shows="readers"),
    Case("ListGroups", {}, ((DESCRIBE, CLUSTER),), 0, shows="readers", name="by the cluster's rule"),
    Case("DeleteGroups", {"groups_names": ["nobody"]}, ((DELETE, Resource.group("nobody")),),
         GROUP_REFUSED),
    Case("OffsetCommit", {"group_id": "readers", "generation_id_or_member_epoch": -1,
                          "topics": _COMMIT},
         ((READ, READERS), (READ, ORDERS)), GROUP_REFUSED),
    Case(
        "OffsetFetch",
        {"groups": [{"group_id": "readers", "topics": [
            {"name": "orders", "partition_indexes": [0]}]}]},
        ((DESCRIBE, READERS), (DESCRIBE, ORDERS)), GROUP_REFUSED, shows="committed_offset=1",
    ),
    Case("OffsetFetch", {"groups": [{"group_id": "readers", "topics": None}]},
         ((DESCRIBE, READERS),), GROUP_REFUSED, name="of all topics"),
    Case("OffsetDelete", {"group_id": "other", "topics": _PART},
         ((DELETE, Resource.group("other")),), GROUP_REFUSED),
    # ------------------------------------------------------------------ transactions
    Case("InitProducerId", {"transactional_id": "payments", "transaction_timeout_ms": 60_000},
         ((WRITE, PAYMENTS),), TRANSACTION_REFUSED),
    Case("InitProducerId", {"transactional_id": None, "transaction_timeout_ms": 60_000},
         ((Operation.IDEMPOTENT_WRITE, CLUSTER),), CLUSTER_REFUSED, name="for the cluster"),
    Case("InitProducerId", {"transactional_id": None, "transaction_timeout_ms": 60_000},
         ((WRITE, ORDERS),), CLUSTER_REFUSED, name="for who may write"),
    Case(
        "AddPartitionsToTxn",
        {"v3_and_below_transactional_id": "payments",
         "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]},
        ((WRITE, PAYMENTS), (WRITE, ORDERS)), TRANSACTION_REFUSED, version=3,
        also=frozenset({NOT_ATTEMPTED}),
    ),
    Case(
        "AddPartitionsToTxn",
        {"transactions": [{"transactional_id": "payments", "verify_only": True,
                           "topics": [{"name": "orders", "partitions": [0]}]}]},
        ((ACTION, CLUSTER),), CLUSTER_REFUSED, name="by a broker",
    ),
    Case("AddOffsetsToTxn", {"transactional_id": "payments", "group_id": "readers"},
         ((WRITE, PAYMENTS), (READ, READERS)), TRANSACTION_REFUSED),
    Case("EndTxn", {"transactional_id": "payments"}, ((WRITE, PAYMENTS),), TRANSACTION_REFUSED),
    Case("TxnOffsetCommit",
         {"transactional_id": "payments", "group_id": "readers", "topics": _COMMIT},
         ((WRITE, PAYMENTS), (READ, READERS), (READ, ORDERS)), TRANSACTION_REFUSED),
    Case(
        "WriteTxnMarkers",
        {"markers": [{"producer_id": 77, "topics": [
            {"name": "not-there", "partition_indexes": [0]}]}]},
        ((ACTION, CLUSTER),), CLUSTER_REFUSED,
    ),
    Case("DescribeTransactions", {"transactional_ids": ["payments"]}, ((DESCRIBE, PAYMENTS),),
         TRANSACTION_REFUSED, shows="transaction_timeout_ms=60000"),
    Case("ListTransactions", {}, ((DESCRIBE, PAYMENTS),), 0, shows="payments"),
    # ------------------------------------------------------------------ the cluster
    Case("DescribeLogDirs", {"topics": None}, ((DESCRIBE, CLUSTER),), CLUSTER_REFUSED,
         shows="orders"),
    Case("ElectLeaders", {"topic_partitions": [{"topic": "orders", "partitions": [0]}]},
         ((ALTER, CLUSTER),), CLUSTER_REFUSED, shows="orders"),
    Case("ElectLeaders", {"topic_partitions": [{"topic": "orders", "partitions": [0]}]},
         ((ALTER, CLUSTER),), CLUSTER_REFUSED, version=0, name="without an error of the whole"),
    Case(
        "AlterPartitionReassignments",
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        ((ALTER, CLUSTER),), CLUSTER_REFUSED, shows="orders",
    ),
    Case("ListPartitionReassignments", {"topics": None}, ((DESCRIBE, CLUSTER),), CLUSTER_REFUSED),
    Case("UnregisterBroker", {"broker_id": 9}, ((ALTER, CLUSTER),), CLUSTER_REFUSED),
    # ------------------------------------------------------------------ users, rules, quotas
    Case("DescribeAcls", _EVERY_RULE, ((DESCRIBE, CLUSTER),), CLUSTER_REFUSED, shows="User:witness"),
    Case("CreateAcls", {"creations": [RULE]}, ((ALTER, CLUSTER),), CLUSTER_REFUSED),
    Case("DeleteAcls", {"filters": [_NO_RULE]}, ((ALTER, CLUSTER),), CLUSTER_REFUSED),
    Case("DescribeClientQuotas", {}, ((DESCRIBE_CONFIGS, CLUSTER),), CLUSTER_REFUSED,
         shows="producer_byte_rate"),
    Case("AlterClientQuotas", {"entries": [QUOTA], "validate_only": True},
         ((ALTER_CONFIGS, CLUSTER),), CLUSTER_REFUSED),
    Case("DescribeUserScramCredentials", {"users": None}, ((DESCRIBE, CLUSTER),), CLUSTER_REFUSED,
         shows="witness"),
    Case("AlterUserScramCredentials", {"upsertions": [SCRAM]}, ((ALTER, CLUSTER),),
         CLUSTER_REFUSED),
    # ------------------------------------------------------------------ among brokers
    Case("AlterPartition", {"broker_id": 9}, ((ACTION, CLUSTER),), CLUSTER_REFUSED),
    Case("BrokerRegistration", {"broker_id": 9, "cluster_id": "another"}, ((ACTION, CLUSTER),),
         CLUSTER_REFUSED),
    Case("BrokerHeartbeat", {"broker_id": 9}, ((ACTION, CLUSTER),), CLUSTER_REFUSED),
    Case("AssignReplicasToDirs", {"broker_id": 9}, ((ACTION, CLUSTER),), CLUSTER_REFUSED),
    Case("AllocateProducerIds", {"broker_id": 9}, ((ACTION, CLUSTER),), CLUSTER_REFUSED),
    Case("Envelope", {"request_data": wrapped("x"), "request_principal": b"\0\0\0"},
         ((ACTION, CLUSTER),), CLUSTER_REFUSED),
]  # fmt: skip
