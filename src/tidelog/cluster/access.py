"""Who may do what, and how much: the access rules, logins and quotas of the cluster, as part of the image.

Immutable, like the image; whoever derives something from it (arranged rules, found limits) may keep that as long as the
`Access` is the same object.
"""

import base64
from collections.abc import Mapping
from dataclasses import field

from tidelog.cluster.metadata import AclRecord, QuotaRecord, Record, ScramRecord
from tidelog.dataclass import dataclass
from tidelog.quotas.limits import Entity, Limits
from tidelog.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tidelog.security.scram import Credential, Mechanism

SCRAM_SECRET = "scram.secret"
"""Under this name the cluster's own settings hold, in hexadecimal, what salts of users who do not exist are made with."""

AccessRecord = AclRecord | ScramRecord | QuotaRecord


@dataclass(frozen=True, slots=True)
class Access:
    """See the module's docstring."""

    acls: Mapping[Acl, None] = field(default_factory=dict)
    credentials: Mapping[tuple[str, Mechanism], Credential] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits({}))

    def apply(self, record: AccessRecord) -> "Access":
        """As it is after `record`."""
        match record:
            case AclRecord():
                acls = dict(self.acls)
                acl = acl_of(record)
                if record.removed:
                    acls.pop(acl, None)
                else:
                    acls[acl] = None
                return Access(acls, self.credentials, self.limits)
            case ScramRecord():
                credentials = dict(self.credentials)
                who = (record.user, Mechanism(record.mechanism))
                if record.removed:
                    credentials.pop(who, None)
                else:
                    credentials[who] = _credential(record)
                return Access(self.acls, credentials, self.limits)
            case QuotaRecord():
                return Access(self.acls, self.credentials, _with(self.limits, record))

    def records(self) -> list[Record]:
        """Records that make this out of nothing."""
        records: list[Record] = [acl_record(acl) for acl in self.acls]
        records += (
            scram_record(user, mechanism, each)
            for (user, mechanism), each in self.credentials.items()
        )
        records += (
            QuotaRecord(entity.user, entity.client_id, entity.ip, key, value)
            for entity, values in self.limits.by_entity.items()
            for key, value in values.items()
        )
        return records


def acl_record(acl: Acl, *, removed: bool = False) -> AclRecord:
    return AclRecord(
        int(acl.resource_type),
        acl.name,
        int(acl.pattern),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
        removed,
    )


def acl_of(record: AclRecord) -> Acl:
    return Acl(
        ResourceType(record.resource_type),
        record.name,
        PatternType(record.pattern),
        record.principal,
        record.host,
        Operation(record.operation),
        Permission(record.permission),
    )


def scram_record(user: str, mechanism: Mechanism, credential: Credential | None) -> ScramRecord:
    """None takes the credential back."""
    if credential is None:
        return ScramRecord(user, mechanism.value, removed=True)
    return ScramRecord(
        user,
        mechanism.value,
        _text(credential.salt),
        credential.iterations,
        _text(credential.stored_key),
        _text(credential.server_key),
    )


def _credential(record: ScramRecord) -> Credential:
    return Credential(
        base64.b64decode(record.salt),
        record.iterations,
        base64.b64decode(record.stored_key),
        base64.b64decode(record.server_key),
    )


def _with(limits: Limits, record: QuotaRecord) -> Limits:
    entity = Entity(record.user, record.client_id, record.ip)
    by_entity = dict(limits.by_entity)
    values = dict(by_entity.pop(entity, {}))
    if record.value is None:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value
    if values:
        by_entity[entity] = values
    return Limits(by_entity)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
