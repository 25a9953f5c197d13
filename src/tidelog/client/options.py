"""The clients' settings as typed keywords, from their declarations; written by `make docs`, do not edit.

`help(ProducerOptions)` lists what a `Producer` takes beside its own arguments; Kafka's names are in docs/reference.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict

from tidelog.client.tokens import TokenProvider

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
SslEndpointIdentificationAlgorithm = Literal["https", "none", ""]
Acks = Literal["all", "-1", "0", "1", -1, 0, 1]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
GroupProtocol = Literal["classic", "consumer"]
AutoOffsetReset = Literal[
    "earliest",
    "latest",
    "none",
    "smallest",
    "beginning",
    "largest",
    "end",
    "error",
]
IsolationLevel = Literal["read_uncommitted", "read_committed"]


class ClientOptions(TypedDict, total=False):
    """What every client needs to find its brokers and to talk to them.

    bootstrap_servers: Addresses `host:port` of some brokers; the others are learnt from them.
    client_id: How the client calls itself to the brokers. (tidelog)
    request_timeout_ms: How long to wait for an answer. (30000)
    default_api_timeout_ms: How long a call may take that has no timeout of its own, retries included. (60000)
    retry_backoff_ms: Pause before the first retry; it doubles. (100)
    retry_backoff_max_ms: Longest pause between retries. (1000)
    metadata_max_age_ms: How often to ask anew which topics there are and who leads them. (300000)
    socket_connection_setup_timeout_ms: How long to wait for a connection. (10000)
    security_protocol: Whether connections are encrypted (SSL), and whether the client logs in (SASL). (PLAINTEXT)
    sasl_mechanism: How the client logs in. (SCRAM-SHA-256)
    sasl_username: Whose login it is. (none)
    sasl_password: The password. (none)
    sasl_oauthbearer_token: A signed token for OAUTHBEARER. (none)
    sasl_oauth_token_provider: A function that fetches a token for OAUTHBEARER, called again before the last one expires. tidelog's own. (none)
    ssl_ca_location: PEM file of the roots that a broker's certificate is checked against; the system's without. (none)
    ssl_certificate_location: PEM file of the client's certificate, for mutual TLS. (none)
    ssl_key_location: PEM file of its key; the certificate's file without. (none)
    ssl_key_password: Password of the key. (none)
    ssl_endpoint_identification_algorithm: `https` checks that a broker's certificate is for its host; `none` does not. (https)
    """

    bootstrap_servers: str | Sequence[str] | None
    client_id: str | None
    request_timeout_ms: int | None
    default_api_timeout_ms: int | None
    retry_backoff_ms: int | None
    retry_backoff_max_ms: int | None
    metadata_max_age_ms: int | None
    socket_connection_setup_timeout_ms: int | None
    security_protocol: SecurityProtocol | None
    sasl_mechanism: SaslMechanism | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauthbearer_token: str | None
    sasl_oauth_token_provider: TokenProvider | None
    ssl_ca_location: str | None
    ssl_certificate_location: str | None
    ssl_key_location: str | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: SslEndpointIdentificationAlgorithm | None


class ProducerOptions(ClientOptions, total=False):
    """How records are gathered, sent and sent again.

    acks: Who must have written a batch before it counts: all in-sync replicas, the leader (1), nobody (0). (all)
    batch_size: Bytes at which a batch is full. Kafka's own default is 16384; fewer, larger batches cost less. (262144)
    linger_ms: How long a batch that is not full waits for more. (5.0)
    buffer_memory: Bytes of records that may wait or be on their way. (67108864)
    max_block_ms: How long `send` may wait for metadata or for memory; 0 fails at once. (60000)
    max_request_size: Largest request, and so largest message. (1048576)
    max_in_flight_requests_per_connection: Requests that may wait for their answers at one broker. (5)
    enable_idempotence: Number the batches, so that retries neither repeat nor reorder; needs acks=all. (true)
    compression_type: Codec of the batches. (none)
    compression_level: The codec's own level; -1 is a fast default of each codec. (-1)
    delivery_timeout_ms: When a record that is still not acknowledged has failed. (120000)
    retries: How often a batch is sent again. (2147483647)
    transactional_id: Makes the producer transactional, and fences an older one of the same name. (none)
    transaction_timeout_ms: After this long the coordinator aborts a transaction that was not ended. (60000)
    """

    acks: Acks | None
    batch_size: int | None
    linger_ms: float | None
    buffer_memory: int | None
    max_block_ms: int | None
    max_request_size: int | None
    max_in_flight_requests_per_connection: int | None
    enable_idempotence: bool | None
    compression_type: CompressionType | None
    compression_level: int | None
    delivery_timeout_ms: int | None
    retries: int | None
    transactional_id: str | None
    transaction_timeout_ms: int | None


class ConsumerOptions(ClientOptions, total=False):
    """What is read, from where, and with whom it is shared.

    group_id: The group that shares the partitions; none without. (none)
    group_instance_id: Makes the member static (KIP-345): it may come back within the session timeout without a rebalance. (none)
    group_protocol: How the group shares: `classic`, where a member decides, or `consumer`, where the broker does (KIP-848). (classic)
    group_remote_assignor: Assignor of the broker (`uniform`, `range`) with group.protocol=consumer; its own choice without. (none)
    partition_assignment_strategy: Assignors in order of liking; the group takes one that all its members know. (range,cooperative-sticky)
    session_timeout_ms: After this long without a heartbeat a member has left. (45000)
    heartbeat_interval_ms: How often to say that one is alive. (3000)
    max_poll_interval_ms: After this long without asking for messages a member leaves its group. (300000)
    max_poll_records: What `poll` returns at most unless told. (500)
    enable_auto_commit: Commit what has been consumed from time to time, and at the end. (true)
    auto_commit_interval_ms: How often. (5000)
    auto_offset_reset: Where to start without a committed offset: earliest (smallest), latest (largest), none is an error. (latest)
    isolation_level: Whether records of open and aborted transactions are shown. (read_uncommitted)
    fetch_min_bytes: The broker waits for so many bytes, (1)
    fetch_max_wait_ms: but no longer than this. (500)
    fetch_max_bytes: Bytes of one answer, about. (52428800)
    max_partition_fetch_bytes: Bytes of one partition in it. (1048576)
    prefetch_max_bytes: Bytes that are fetched ahead of the reader. tidelog's own. (16777216)
    client_rack: Where this reader is: it is sent to a replica in the same rack if the broker allows that (KIP-392). (none)
    check_crcs: Whether the checksum of each batch is verified. (true)
    """

    group_id: str | None
    group_instance_id: str | None
    group_protocol: GroupProtocol | None
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Sequence[str] | None
    session_timeout_ms: int | None
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int | None
    max_poll_records: int | None
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int | None
    auto_offset_reset: AutoOffsetReset | None
    isolation_level: IsolationLevel | None
    fetch_min_bytes: int | None
    fetch_max_wait_ms: int | None
    fetch_max_bytes: int | None
    max_partition_fetch_bytes: int | None
    prefetch_max_bytes: int | None
    client_rack: str | None
    check_crcs: bool | None
