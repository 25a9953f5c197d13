"""What can go wrong: a `RegistryError` has the registry's own code, a `SchemaMismatch` names the field that does not fit.

The codes and texts are Confluent's (`rest/exceptions/Errors.java`), because clients read them.  An incompatible schema
is 409, as the releases up to 7.x say it; newer ones say 40901 in a body with the same HTTP status.
"""

from tidelog.errors import TidelogError


class RegistryError(TidelogError):
    """An answer of the registry that is no success; the same class at both ends of the wire."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    @property
    def retriable(self) -> bool:
        """Whether the registry could not answer now, so that another try may help."""
        return self.status >= 500 or self.status == 429

    def __str__(self) -> str:
        return f"{self.message} (error {self.code})"


class RegistryUnreachable(TidelogError):
    """No registry answered; the message names the addresses."""

    retriable = True


class SchemaMismatch(TidelogError):
    """A message does not fit its schema; `path` is the field, as `order.lines[2].price`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the message'}: {reason}")
        self.path = path
        self.reason = reason


class NotInWireFormat(TidelogError):
    """The bytes do not begin with a magic 0 and a schema id."""


class InvalidSchema(TidelogError):
    """A text is not a schema of its type; the message says where and why."""


# Not found.


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(id: int | None = None) -> RegistryError:
    text = "Schema not found" if id is None else f"Schema {id} not found"
    return RegistryError(404, 40403, text)


def subject_soft_deleted(subject: str) -> RegistryError:
    text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(404, 40404, text)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(404, 40405, text)


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    text = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(404, 40406, text)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryError(404, 40407, text)


def no_subject_config(subject: str) -> RegistryError:
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(404, 40408, text)


def no_subject_mode(subject: str) -> RegistryError:
    text = f"Subject '{subject}' does not have subject-level mode configured"
    return RegistryError(404, 40409, text)


# Refused.


def incompatible(subject: str, reasons: list[str]) -> RegistryError:
    text = (
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(reasons)}]'
    )
    return RegistryError(409, 409, text)


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(422, 42201, reason)


def invalid_version(version: str) -> RegistryError:
    text = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RegistryError(422, 42202, text)


def invalid_compatibility() -> RegistryError:
    text = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return RegistryError(422, 42203, text)


def invalid_mode() -> RegistryError:
    text = "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT."
    return RegistryError(422, 42204, text)


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(422, 42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(422, 42206, f"One or more references exist to the schema {key}.")


def id_does_not_match(reason: str) -> RegistryError:
    return RegistryError(422, 42207, reason)


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(422, 42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large() -> RegistryError:
    return RegistryError(422, 42209, "Register operation failed because schema is too large")


def invalid_request(reason: str) -> RegistryError:
    """A body or parameter that is not what this call takes."""
    return RegistryError(422, 422, reason)


# We could not.


def store_failed(reason: str) -> RegistryError:
    return RegistryError(500, 50001, reason)


def timed_out(reason: str) -> RegistryError:
    return RegistryError(500, 50002, reason)


def forwarding_failed(reason: str) -> RegistryError:
    return RegistryError(500, 50003, reason)


def unknown_leader() -> RegistryError:
    return RegistryError(500, 50004, "Leader not known.")
