"""DescribeUserScramCredentials (50): which users have SCRAM credentials, of what strength (KIP-554).

Version 0.  Absent: nothing.
"""

from collections import Counter

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, cluster
from tidelog.errors import DuplicateResource, ResourceNotFound
from tidelog.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(DescribeUserScramCredentialsRequest, "0", allow=cluster(DESCRIBE))
async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: Context
) -> DescribeUserScramCredentialsResponse:
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in sorted(
        ctx.broker.image().access.credentials.items(), key=lambda each: each[0][1].value
    ):
        known.setdefault(user, []).append(
            CredentialInfo(mechanism=mechanism.value, iterations=credential.iterations)
        )
    asked = Counter([each.name for each in request.users or ()] or sorted(known))
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_result(user, known, times > 1) for user, times in asked.items()],
    )


def _result(
    user: str, known: dict[str, list[CredentialInfo]], twice: bool
) -> DescribeUserScramCredentialsResult:
    if twice:
        message = f"user {user} appears twice in the request"
        return DescribeUserScramCredentialsResult(
            user=user, error_code=DuplicateResource.code, error_message=message
        )
    if user not in known:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ResourceNotFound.code,
            error_message=f"user {user} has no SCRAM credentials",
        )
    return DescribeUserScramCredentialsResult(
        user=user, error_message=None, credential_infos=known[user]
    )
