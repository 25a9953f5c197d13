"""What the routes share: who asks, whether something may be changed, names in paths, and what goes wrong."""

import base64
import binascii
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import AfterValidator, BaseModel

from tidelog.console.clients import Clients
from tidelog.console.errors import ConsoleError, bad_request
from tidelog.console.sessions import Sessions

INT32 = (1 << 31) - 1
INT64 = (1 << 63) - 1


class Problem(BaseModel):
    code: str
    """For programs, such as `unknown_topic_or_partition`."""
    message: str
    """For people."""


class Failure(BaseModel):
    """What went wrong."""

    error: Problem


_TEXTS = {
    400: "the request cannot be used",
    401: "nobody is logged in, or the login was refused",
    403: "not allowed, or refused for where it comes from",
    404: "there is no such thing",
    409: "it does not go together with what there is",
    413: "too large",
    415: "the body is not JSON",
    422: "a parameter has the wrong form",
    429: "too many at once",
    501: "the broker is too old for this",
    502: "the broker, or the registry, cannot be reached",
    503: "not at the moment",
    504: "it took too long",
}


def router(tag: str) -> APIRouter:
    """Routes of one kind of thing."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": Failure, "description": text} for status, text in _TEXTS.items()
    }
    return APIRouter(tags=[tag], responses=responses)


def cookie_name(request: Request) -> str:
    """One a port: browsers share cookies between all ports of a host."""
    return f"tidelog-console-{request.url.port or 80}"


def sessions_of(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


async def clients_of(request: Request) -> Clients:
    """The clients of whoever asks."""
    sessions = sessions_of(request)
    given = request.headers.get("authorization", "")
    if sessions.needs_login and given[:6].lower() == "basic ":
        return await sessions.login_again(*_credentials(given[6:]))
    return await sessions.clients(request.cookies.get(cookie_name(request)))


def may_write(request: Request) -> None:
    if request.app.state.read_only:
        raise ConsoleError(403, "read_only", "this console is read-only (--read-only)")


def _credentials(text: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise ConsoleError(401, "login_refused", "the Authorization header is not Basic") from None
    return user, password


def confirm(name: str, confirmed: str) -> None:
    """What cannot be undone wants its name twice."""
    if confirmed != name:
        raise bad_request(f"confirm={confirmed!r} must be {name!r}: this cannot be undone")


Asks = Annotated[Clients, Depends(clients_of)]
MayWrite = Depends(may_write)

# The guard has left the path as it came; see there.
TopicName = Annotated[str, Path(max_length=800), AfterValidator(unquote)]
GroupName = Annotated[str, Path(max_length=2000), AfterValidator(unquote)]
SubjectName = Annotated[str, Path(max_length=2000), AfterValidator(unquote)]
UserName = Annotated[str, Path(max_length=2000), AfterValidator(unquote)]
Confirmed = Annotated[str, Query(max_length=800, description="the name once more")]
