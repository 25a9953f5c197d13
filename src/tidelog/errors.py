"""Everything that can go wrong, as one tree: a class for each Kafka error code.

A handler raises one of these, or puts `SomeError.code` into an answer; the dispatcher turns what is raised
into the answer's error code.  "They erred" is a `KafkaError`; "we erred" is anything else, is logged with its
traceback and told to the client as `UnknownServerError`.  `TidelogError` is the root of both the protocol's
errors and our own (settings, data directory, malformed bytes).
"""

from typing import Any, ClassVar, Self


class TidelogError(Exception):
    """Root of all errors that tidelog raises on purpose."""


class ProtocolError(TidelogError):
    """The bytes are not the message they claim to be; the connection is closed."""


class SettingsError(TidelogError):
    """One or more settings cannot be used; the message names each, its value and the cure."""


class StartError(TidelogError):
    """The broker cannot start; the message says what is wrong and what to do."""


class TransactionFailed(TidelogError):
    """The transaction can only be aborted; another one may be tried with the same producer."""


class ProducerUnusable(TidelogError):
    """The transactional producer can do nothing more; close it, and make another if there is more to do."""


class DeliveryFailed(TidelogError):
    """Records were given up, and nobody had asked their deliveries; `first` is what went wrong with the first of them."""

    def __init__(self, count: int, partition: tuple[str, int], first: Exception) -> None:
        self.count = count
        self.partition = partition
        self.first = first
        what = (
            "1 record was not delivered"
            if count == 1
            else f"{count} records were not delivered, the first"
        )
        topic, number = partition
        super().__init__(f"{what} to {topic}-{number}: {first}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.count, self.partition, self.first)


class KafkaError(TidelogError):
    """What a client is told with an error code.

    `message` is sent where the answer has room for it; without one the class's own text is used.
    """

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    text: ClassVar[str] = ""

    def __init__(self, message: str | None = None) -> None:
        self.message = message or self.text
        super().__init__(self.message)

    def kept(self) -> Self:
        """Itself without its traceback, to be kept in a list of outcomes.

        The traceback refers to the frame that has the list: thousands of such cycles hold the loop when they are collected.
        """
        return self.with_traceback(None)


class UnknownServerError(KafkaError):
    code = -1
    text = "the broker failed in a way it did not expect; its log has the cause"


class OffsetOutOfRange(KafkaError):
    code = 1
    text = "the offset is outside the range that this partition holds"


class CorruptMessage(KafkaError):
    code = 2
    retriable = True
    text = "the batch failed its checks (CRC, size or layout)"


class UnknownTopicOrPartition(KafkaError):
    code = 3
    retriable = True
    text = "this broker does not host that topic or partition"


class InvalidFetchSize(KafkaError):
    code = 4
    text = "the fetch size is not valid"


class LeaderNotAvailable(KafkaError):
    code = 5
    retriable = True
    text = "the partition has no leader at the moment"


class NotLeaderOrFollower(KafkaError):
    code = 6
    retriable = True
    text = "this broker is not the leader or a follower of the partition"


class RequestTimedOut(KafkaError):
    code = 7
    retriable = True
    text = "the request was not finished in the time it allowed"


class BrokerNotAvailable(KafkaError):
    code = 8
    text = "the broker is not available"


class ReplicaNotAvailable(KafkaError):
    code = 9
    retriable = True
    text = "the replica is not available"


class MessageTooLarge(KafkaError):
    code = 10
    text = "the batch is larger than max.message.bytes"


class StaleControllerEpoch(KafkaError):
    code = 11
    text = "the controller has moved to another broker"


class OffsetMetadataTooLarge(KafkaError):
    code = 12
    text = "the metadata of the offset is larger than offset.metadata.max.bytes"


class NetworkException(KafkaError):
    code = 13
    retriable = True
    text = "the connection was lost before the answer came"


class CoordinatorLoadInProgress(KafkaError):
    code = 14
    retriable = True
    text = "the coordinator is still loading its state"


class CoordinatorNotAvailable(KafkaError):
    code = 15
    retriable = True
    text = "the coordinator is not available"


class NotCoordinator(KafkaError):
    code = 16
    retriable = True
    text = "this broker is not the coordinator of that id"


class InvalidTopicException(KafkaError):
    code = 17
    text = "the topic name is not legal"


class RecordListTooLarge(KafkaError):
    code = 18
    text = "the batch is larger than a segment may be"


class NotEnoughReplicas(KafkaError):
    code = 19
    retriable = True
    text = "fewer replicas are in sync than min.insync.replicas asks for"


class NotEnoughReplicasAfterAppend(KafkaError):
    code = 20
    retriable = True
    text = "the batch was written, but to fewer in-sync replicas than asked for"


class InvalidRequiredAcks(KafkaError):
    code = 21
    text = "acks must be 0, 1 or -1"


class IllegalGeneration(KafkaError):
    code = 22
    text = "the generation is not the current one of the group"


class InconsistentGroupProtocol(KafkaError):
    code = 23
    text = "the member shares no protocol with the group"


class InvalidGroupId(KafkaError):
    code = 24
    text = "the group id is not valid"


class UnknownMemberId(KafkaError):
    code = 25
    text = "the group does not know this member"


class InvalidSessionTimeout(KafkaError):
    code = 26
    text = "the session timeout is outside the range that the broker allows"


class RebalanceInProgress(KafkaError):
    code = 27
    text = "the group is rebalancing; the member must join again"


class InvalidCommitOffsetSize(KafkaError):
    code = 28
    text = "the committed offsets are too large"


class TopicAuthorizationFailed(KafkaError):
    code = 29
    text = "not allowed for this topic"


class GroupAuthorizationFailed(KafkaError):
    code = 30
    text = "not allowed for this group"


class ClusterAuthorizationFailed(KafkaError):
    code = 31
    text = "not allowed for the cluster"


class InvalidTimestamp(KafkaError):
    code = 32
    text = "the timestamp of a record is outside the allowed range"


class UnsupportedSaslMechanism(KafkaError):
    code = 33
    text = "the broker does not offer this SASL mechanism"


class IllegalSaslState(KafkaError):
    code = 34
    text = "the request does not fit the state of the login"


class UnsupportedVersion(KafkaError):
    code = 35
    text = "this version of the API is not supported"


class TopicAlreadyExists(KafkaError):
    code = 36
    text = "the topic exists already"


class InvalidPartitions(KafkaError):
    code = 37
    text = "the number of partitions is not valid"


class InvalidReplicationFactor(KafkaError):
    code = 38
    text = "the replication factor is below 1 or above the number of brokers"


class InvalidReplicaAssignment(KafkaError):
    code = 39
    text = "the replica assignment is not valid"


class InvalidConfig(KafkaError):
    code = 40
    text = "a setting is not valid"


class NotController(KafkaError):
    code = 41
    retriable = True
    text = "this broker is not the controller"


class InvalidRequest(KafkaError):
    code = 42
    text = "the request contradicts itself"


class UnsupportedForMessageFormat(KafkaError):
    code = 43
    text = "the message format of the topic does not support this"


class PolicyViolation(KafkaError):
    code = 44
    text = "the request breaks a policy of the cluster"


class OutOfOrderSequenceNumber(KafkaError):
    code = 45
    text = "a sequence number was skipped"


class DuplicateSequenceNumber(KafkaError):
    code = 46
    text = "the sequence number was used before"


class InvalidProducerEpoch(KafkaError):
    code = 47
    text = "the producer has an old epoch"


class InvalidTxnState(KafkaError):
    code = 48
    text = "the transaction is not in a state that allows this"


class InvalidProducerIdMapping(KafkaError):
    code = 49
    text = "the producer id does not belong to this transactional id"


class InvalidTransactionTimeout(KafkaError):
    code = 50
    text = "the transaction timeout is larger than transaction.max.timeout.ms"


class ConcurrentTransactions(KafkaError):
    code = 51
    retriable = True
    text = "another operation on this transaction is still running"


class TransactionCoordinatorFenced(KafkaError):
    code = 52
    text = "the transaction coordinator has moved to another broker"


class TransactionalIdAuthorizationFailed(KafkaError):
    code = 53
    text = "not allowed for this transactional id"


class SecurityDisabled(KafkaError):
    code = 54
    text = "security is not switched on"


class OperationNotAttempted(KafkaError):
    code = 55
    text = "not attempted, because another part of the request failed"


class KafkaStorageError(KafkaError):
    code = 56
    retriable = True
    text = "the disk that holds this partition failed"


class LogDirNotFound(KafkaError):
    code = 57
    text = "the broker has no such log directory"


class SaslAuthenticationFailed(KafkaError):
    code = 58
    text = "the login was refused"


class UnknownProducerId(KafkaError):
    code = 59
    text = "the broker holds no state for this producer id"


class ReassignmentInProgress(KafkaError):
    code = 60
    text = "a reassignment of this partition is running"


class DelegationTokenAuthDisabled(KafkaError):
    code = 61
    text = "delegation tokens are not switched on"


class DelegationTokenNotFound(KafkaError):
    code = 62
    text = "the delegation token is not known"


class DelegationTokenOwnerMismatch(KafkaError):
    code = 63
    text = "the delegation token belongs to someone else"


class DelegationTokenRequestNotAllowed(KafkaError):
    code = 64
    text = "delegation tokens cannot be used on this connection"


class DelegationTokenAuthorizationFailed(KafkaError):
    code = 65
    text = "not allowed for this delegation token"


class DelegationTokenExpired(KafkaError):
    code = 66
    text = "the delegation token has expired"


class InvalidPrincipalType(KafkaError):
    code = 67
    text = "the type of the principal is not supported"


class NonEmptyGroup(KafkaError):
    code = 68
    text = "the group has members"


class GroupIdNotFound(KafkaError):
    code = 69
    text = "there is no such group"


class FetchSessionIdNotFound(KafkaError):
    code = 70
    retriable = True
    text = "the fetch session is not known"


class InvalidFetchSessionEpoch(KafkaError):
    code = 71
    retriable = True
    text = "the epoch of the fetch session is not the expected one"


class ListenerNotFound(KafkaError):
    code = 72
    retriable = True
    text = "the leader has no listener of that name"


class TopicDeletionDisabled(KafkaError):
    code = 73
    text = "deletion of topics is switched off"


class FencedLeaderEpoch(KafkaError):
    code = 74
    retriable = True
    text = "the leader epoch of the request is older than the broker's"


class UnknownLeaderEpoch(KafkaError):
    code = 75
    retriable = True
    text = "the leader epoch of the request is newer than the broker's"


class UnsupportedCompressionType(KafkaError):
    code = 76
    text = "the compression is not supported by this version of the API"


class StaleBrokerEpoch(KafkaError):
    code = 77
    text = "the broker has registered anew since"


class OffsetNotAvailable(KafkaError):
    code = 78
    retriable = True
    text = "the leader cannot tell its high watermark yet"


class MemberIdRequired(KafkaError):
    code = 79
    text = "the member must join again with the id that it was given"


class PreferredLeaderNotAvailable(KafkaError):
    code = 80
    retriable = True
    text = "the preferred leader is not available"


class GroupMaxSizeReached(KafkaError):
    code = 81
    text = "the group has group.max.size members already"


class FencedInstanceId(KafkaError):
    code = 82
    text = "another member has taken over this group.instance.id"


class EligibleLeadersNotAvailable(KafkaError):
    code = 83
    retriable = True
    text = "no eligible leader is available"


class ElectionNotNeeded(KafkaError):
    code = 84
    retriable = True
    text = "the partition has the right leader already"


class NoReassignmentInProgress(KafkaError):
    code = 85
    text = "no reassignment of this partition is running"


class GroupSubscribedToTopic(KafkaError):
    code = 86
    text = "the group is subscribed to this topic"


class InvalidRecord(KafkaError):
    code = 87
    text = "the record does not pass the broker's checks"


class UnstableOffsetCommit(KafkaError):
    code = 88
    retriable = True
    text = "an open transaction may still change these offsets"


class ThrottlingQuotaExceeded(KafkaError):
    code = 89
    retriable = True
    text = "the quota is used up; try again later"


class ProducerFenced(KafkaError):
    code = 90
    text = "a newer producer with the same transactional id took over"


class ResourceNotFound(KafkaError):
    code = 91
    text = "there is no such resource"


class DuplicateResource(KafkaError):
    code = 92
    text = "the resource exists already"


class UnacceptableCredential(KafkaError):
    code = 93
    text = "the credential is not acceptable"


class InconsistentVoterSet(KafkaError):
    code = 94
    text = "the voter sets differ"


class InvalidUpdateVersion(KafkaError):
    code = 95
    text = "the update version is not valid"


class FeatureUpdateFailed(KafkaError):
    code = 96
    text = "the feature could not be updated"


class PrincipalDeserializationFailure(KafkaError):
    code = 97
    text = "the principal could not be read"


class SnapshotNotFound(KafkaError):
    code = 98
    text = "there is no such snapshot"


class PositionOutOfRange(KafkaError):
    code = 99
    text = "the position is outside the snapshot"


class UnknownTopicId(KafkaError):
    code = 100
    retriable = True
    text = "there is no topic with this id"


class DuplicateBrokerRegistration(KafkaError):
    code = 101
    text = "another broker with this id is alive"


class BrokerIdNotRegistered(KafkaError):
    code = 102
    text = "the broker id is not registered"


class InconsistentTopicId(KafkaError):
    code = 103
    retriable = True
    text = "the topic id does not belong to the topic name"


class InconsistentClusterId(KafkaError):
    code = 104
    text = "the cluster id is another one"


class TransactionalIdNotFound(KafkaError):
    code = 105
    text = "the transactional id is not known"


class FetchSessionTopicIdError(KafkaError):
    code = 106
    retriable = True
    text = "the fetch session mixes topic names and topic ids"


class IneligibleReplica(KafkaError):
    code = 107
    text = "the replica may not join the in-sync set"


class NewLeaderElected(KafkaError):
    code = 108
    text = "the change made another broker the leader"


class OffsetMovedToTieredStorage(KafkaError):
    code = 109
    text = "the offset lies in tiered storage"


class FencedMemberEpoch(KafkaError):
    code = 110
    text = "the member's epoch was fenced; it must join again"


class UnreleasedInstanceId(KafkaError):
    code = 111
    text = "another member still holds this group.instance.id"


class UnsupportedAssignor(KafkaError):
    code = 112
    text = "the broker does not offer this assignor"


class StaleMemberEpoch(KafkaError):
    code = 113
    text = "the member's epoch is not the current one"


class MismatchedEndpointType(KafkaError):
    code = 114
    text = "the request went to the wrong type of endpoint"


class UnsupportedEndpointType(KafkaError):
    code = 115
    text = "this type of endpoint is not supported"


class UnknownControllerId(KafkaError):
    code = 116
    text = "the controller id is not known"


class UnknownSubscriptionId(KafkaError):
    code = 117
    text = "the telemetry subscription is not known"


class TelemetryTooLarge(KafkaError):
    code = 118
    text = "the telemetry is too large"


class InvalidRegistration(KafkaError):
    code = 119
    text = "the registration is not valid"


class TransactionAbortable(KafkaError):
    code = 120
    text = "the transaction must be aborted"


class InvalidRecordState(KafkaError):
    code = 121
    text = "the record is not in a state that allows this"


class ShareSessionNotFound(KafkaError):
    code = 122
    retriable = True
    text = "the share session is not known"


class InvalidShareSessionEpoch(KafkaError):
    code = 123
    retriable = True
    text = "the epoch of the share session is not the expected one"


class FencedStateEpoch(KafkaError):
    code = 124
    text = "the state epoch is old"


class InvalidVoterKey(KafkaError):
    code = 125
    text = "the voter key is not valid"


class DuplicateVoter(KafkaError):
    code = 126
    text = "the voter exists already"


class VoterNotFound(KafkaError):
    code = 127
    text = "there is no such voter"


class InvalidRegularExpression(KafkaError):
    code = 128
    text = "the regular expression is not valid"


class RebootstrapRequired(KafkaError):
    code = 129
    text = "the client must start again from its bootstrap servers"


NONE = 0
"""The code of success."""

BY_CODE: dict[int, type[KafkaError]] = {error.code: error for error in KafkaError.__subclasses__()}


def error_of(code: int, message: str | None = None) -> KafkaError:
    """The exception for a code that a peer sent."""
    return BY_CODE.get(code, UnknownServerError)(message)
