"""The application: routes, errors, the page, and the guard around all of it."""

import asyncio
import importlib
import logging
import pkgutil
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import tidelog
from tidelog.console import api
from tidelog.console.errors import answer_of, body_of
from tidelog.console.sessions import Sessions
from tidelog.errors import TidelogError
from tidelog.web.guard import Guard

_log = logging.getLogger(__name__)

PREFIX = "/api/v1"
_DESCRIPTION = """A cluster by HTTP: what the console's page uses, for scripts and for curl.

Errors are `{"error": {"code": …, "message": …}}`.  Where the broker asks for a login, send it as `curl -u user`."""


def application(
    sessions: Sessions,
    *,
    read_only: bool = False,
    has_registry: bool = False,
    stopping: asyncio.Event | None = None,
    hosts: Iterable[str] = (),
) -> Guard:
    """The ASGI application; `hosts` are names under which it may be reached, besides addresses and localhost.

    What would never end by itself ends when `stopping` is set.
    """
    app = FastAPI(
        title="tidelog console",
        description=_DESCRIPTION,
        version=tidelog.__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.sessions = sessions
    app.state.read_only = read_only
    app.state.has_registry = has_registry
    app.state.tails = 0
    app.state.stopping = stopping or asyncio.Event()
    for found in pkgutil.iter_modules(api.__path__):
        module = importlib.import_module(f"{api.__name__}.{found.name}")
        if hasattr(module, "ROUTER"):
            app.include_router(module.ROUTER, prefix=PREFIX)
    app.add_exception_handler(TidelogError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)
    app.mount("/", StaticFiles(directory=str(files(__package__) / "static"), html=True))
    return Guard(app, hosts)


async def _told(request: Request, error: Exception) -> JSONResponse:
    status, body = answer_of(error)
    return JSONResponse(body, status)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Not what was sent: it may be a password.
    wrong = [f"{_place(each['loc'])}: {each['msg']}" for each in error.errors()[:5]]
    return JSONResponse(body_of("invalid", "; ".join(wrong)), 422)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = "not_found" if error.status_code == 404 else f"http_{error.status_code}"
    body = body_of(code, f"{request.url.path}: {error.detail}")
    return JSONResponse(body, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    text = "the console failed in a way it did not expect; its log has the cause"
    return JSONResponse(body_of("unexpected", text), 500)


def _place(place: tuple[Any, ...]) -> str:
    return ".".join(str(each) for each in place[1:]) or str(place[0])
