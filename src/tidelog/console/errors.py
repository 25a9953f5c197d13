"""What went wrong, as HTTP says it: `{"error": {"code": …, "message": …}}` with a fitting status.

`code` is for programs (Kafka's name of the error in snake_case, or ours), `message` for people.
"""

import re
from typing import Any

from tidelog import errors
from tidelog.errors import KafkaError
from tidelog.schemas.errors import (
    InvalidSchema,
    NotInWireFormat,
    RegistryError,
    RegistryUnreachable,
    SchemaMismatch,
)

_STATUS: dict[type[Exception], int] = {
    errors.UnknownTopicOrPartition: 404,
    errors.GroupIdNotFound: 404,
    errors.ResourceNotFound: 404,
    errors.OffsetOutOfRange: 404,
    errors.TopicAlreadyExists: 409,
    errors.DuplicateResource: 409,
    errors.NonEmptyGroup: 409,
    errors.UnknownMemberId: 409,
    errors.RebalanceInProgress: 409,
    errors.GroupSubscribedToTopic: 409,
    errors.TopicDeletionDisabled: 409,
    errors.SecurityDisabled: 409,
    errors.NotEnoughReplicas: 503,
    errors.NotEnoughReplicasAfterAppend: 503,
    errors.MessageTooLarge: 413,
    errors.RecordListTooLarge: 413,
    errors.TopicAuthorizationFailed: 403,
    errors.GroupAuthorizationFailed: 403,
    errors.ClusterAuthorizationFailed: 403,
    errors.TransactionalIdAuthorizationFailed: 403,
    errors.SaslAuthenticationFailed: 401,
    errors.UnsupportedSaslMechanism: 401,
    errors.RequestTimedOut: 504,
    errors.NetworkException: 502,
    errors.BrokerNotAvailable: 503,
    errors.ThrottlingQuotaExceeded: 429,
    errors.UnsupportedVersion: 501,
    errors.UnknownServerError: 502,
    RegistryUnreachable: 502,
    InvalidSchema: 422,
    SchemaMismatch: 422,
    NotInWireFormat: 422,
}


class ConsoleError(errors.TidelogError):
    """What the console itself refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def not_found(what: str) -> ConsoleError:
    return ConsoleError(404, "not_found", what)


def bad_request(message: str) -> ConsoleError:
    return ConsoleError(400, "bad_request", message)


def answer_of(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status and the body for an error that somebody made on purpose."""
    if isinstance(error, ConsoleError):
        return error.status, body_of(error.code, str(error))
    if isinstance(error, RegistryError):
        return error.status, body_of(f"registry_{error.code}", error.message)
    message = " ".join(str(error).split()) or type(error).__name__
    return _status_of(error), body_of(_snake(type(error).__name__), message)


def body_of(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _status_of(error: Exception) -> int:
    for kind in type(error).__mro__:
        if kind in _STATUS:
            return _STATUS[kind]
    if isinstance(error, KafkaError):
        return 503 if error.retriable else 400
    return 400


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("_")).lower()
