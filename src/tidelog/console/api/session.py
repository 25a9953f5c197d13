"""Logging in and out, and what the page must know before it shows anything."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, Field

import tidelog
from tidelog.console.api.asking import cookie_name, router, sessions_of
from tidelog.console.sessions import OLDEST_S
from tidelog.dataclass import dataclass

ROUTER = router("session")


class Login(BaseModel):
    user: Annotated[str, Field(max_length=500)]
    password: Annotated[str, Field(max_length=500, json_schema_extra={"format": "password"})]


@dataclass(frozen=True, slots=True)
class SessionView:
    needs_login: bool
    user: str | None
    """None for who is not logged in, and where nobody has to."""
    read_only: bool
    has_registry: bool
    version: str


@ROUTER.get("/session")
async def session(request: Request) -> SessionView:
    """Whether a login is needed, and who is logged in."""
    found = await sessions_of(request).find(request.cookies.get(cookie_name(request)))
    return _view(request, found.user if found else None)


@ROUTER.post("/session")
async def login(login: Login, request: Request, response: Response) -> SessionView:
    """Log in with a user of the broker; the cookie is the session."""
    token = await sessions_of(request).login(login.user, login.password)
    response.set_cookie(
        cookie_name(request),
        token,
        max_age=OLDEST_S,
        httponly=True,
        samesite="strict",
        secure=_is_encrypted(request),
    )
    return _view(request, login.user)


@ROUTER.delete("/session")
async def logout(request: Request, response: Response) -> SessionView:
    """Log out."""
    name = cookie_name(request)
    await sessions_of(request).logout(request.cookies.get(name))
    response.delete_cookie(name, httponly=True, samesite="strict")
    return _view(request, None)


def _is_encrypted(request: Request) -> bool:
    """As far as the browser is concerned, which may speak to a proxy before us."""
    return request.headers.get("origin", str(request.url)).startswith("https://")


def _view(request: Request, user: str | None) -> SessionView:
    state = request.app.state
    return SessionView(
        sessions_of(request).needs_login,
        user,
        state.read_only,
        state.has_registry,
        tidelog.__version__,
    )
