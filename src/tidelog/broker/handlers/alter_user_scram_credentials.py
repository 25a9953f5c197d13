"""AlterUserScramCredentials (51): set or delete the SCRAM credentials of users (KIP-554).

Version 0.  The password is salted by the client and never sent.  Absent: nothing.
"""

import secrets
from collections import Counter

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, by_item, maybe_refused
from tidelog.cluster.access import SCRAM_SECRET, scram_record
from tidelog.cluster.image import CLUSTER as IN_CLUSTER
from tidelog.cluster.image import Image
from tidelog.cluster.metadata import ConfigRecord, Record
from tidelog.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from tidelog.security.acls import CLUSTER
from tidelog.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, Credential, Mechanism


@handles(AlterUserScramCredentialsRequest, "0", allow=by_item, controller=True)
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: Context
) -> AlterUserScramCredentialsResponse:
    refused = maybe_refused(ctx, ALTER, CLUSTER)
    named = [(each.name, each.mechanism) for each in request.deletions]
    named += [(each.name, each.mechanism) for each in request.upsertions]
    twice = {user for (user, _), count in Counter(named).items() if count > 1}

    fresh = secrets.token_hex(32)

    def decide(image: Image) -> tuple[list[Record], dict[str, KafkaError | None]]:
        records: dict[str, list[Record]] = {}
        outcomes: dict[str, KafkaError | None] = dict.fromkeys(user for user, _ in named)
        for user, number in ((each.name, each.mechanism) for each in request.deletions):
            try:
                records.setdefault(user, []).append(_deletion(image, user, number))
            except KafkaError as error:
                outcomes[user] = error.kept()
        for each in request.upsertions:
            try:
                records.setdefault(each.name, []).append(_upsertion(each))
            except KafkaError as error:
                outcomes[each.name] = error.kept()
        for user in twice:
            outcomes[user] = DuplicateResource(f"user {user} is altered twice in the request")
        # A user is altered as asked, or not at all.
        good = [
            record for user, made in records.items() if outcomes[user] is None for record in made
        ]
        if good and SCRAM_SECRET not in image.config((IN_CLUSTER, "")):
            good.append(ConfigRecord(IN_CLUSTER, "", SCRAM_SECRET, fresh))
        return good, outcomes

    outcomes = (
        dict.fromkeys((user for user, _ in named), refused)
        if refused
        else await ctx.broker.controller.submit(decide)
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
            )
            for user, error in outcomes.items()
        ]
    )


def _deletion(image: Image, user: str, number: int) -> Record:
    mechanism = _mechanism(number)
    if (user, mechanism) not in image.access.credentials:
        raise ResourceNotFound(f"user {user} has no {mechanism.sasl_name} credential")
    return scram_record(user, mechanism, None)


def _upsertion(wanted: ScramCredentialUpsertion) -> Record:
    mechanism = _mechanism(wanted.mechanism)
    if not wanted.name:
        raise UnacceptableCredential("the user has no name")
    if not MIN_ITERATIONS <= wanted.iterations <= MAX_ITERATIONS:
        raise UnacceptableCredential(
            f"{wanted.iterations} iterations are not between {MIN_ITERATIONS} and {MAX_ITERATIONS}"
        )
    if not wanted.salt or not wanted.salted_password:
        raise UnacceptableCredential("salt and salted password must not be empty")
    credential = Credential.of_salted(
        mechanism,
        bytes(wanted.salted_password),
        salt=bytes(wanted.salt),
        iterations=wanted.iterations,
    )
    return scram_record(wanted.name, mechanism, credential)


def _mechanism(number: int) -> Mechanism:
    try:
        return Mechanism(number)
    except ValueError:
        raise UnsupportedSaslMechanism(f"SCRAM mechanism {number} is not known") from None
