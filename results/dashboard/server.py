"""The pages served to this machine's browser, and the run that is being measured followed. Nothing can be written over HTTP."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from metalbench.results.dashboard.live import progress
from metalbench.results.dashboard.site import Site, apology
from metalbench.results.dashboard.source import Source, comparison_path
from metalbench.results.dashboard.static import HEADERS
from metalbench.results.dashboard.view import NoPageError
from metalbench.results.layout import Naming
from metalbench.results.store import Store, StoreError, open_store

INTERVAL = 1.0  #: seconds between two looks at a run that is being measured


class Served:
    """A store, opened when a page is asked for: one that can't be used yet, of a newer metalbench say, is tried again."""

    def __init__(self, place: str, naming: Naming) -> None:
        self._place, self._naming = place, naming
        self._store: Store | None = None

    def site(self) -> Site:
        """Raises StoreError."""
        if self._store is None:
            self._store = open_store(self._place)
            self._site = Site(Source(self._store, self._naming), live=True)
        return self._site

    def close(self) -> None:
        if self._store is not None:
            self._store.database.close()


def application(
    served: Served, files: Mapping[str, bytes], hosts: Collection[str], ending: Callable[[], bool] = lambda: False
) -> Starlette:
    """``files``: name → content of what pages need below ``assets/``. ``hosts``: the names that this server may be called by.

    A page of another site that has its own name point to this machine is refused by them. ``ending``: whether the server was told to end,
    which streams of events have to know, since they have no end of their own.
    """

    def page(request: Request) -> Response:
        path = request.path_params["path"] or "index.html"
        return _answered(path, lambda: HTMLResponse(served.site().page(path), headers=_FRESH))

    def comparison(request: Request) -> Response:
        """What the form on the page asks for, as a page with a link that can be shared."""
        base, candidate = request.query_params.get("base"), request.query_params.get("candidate")
        if base is None or candidate is None:
            return _answered("compare/index.html", lambda: HTMLResponse(served.site().page("compare/index.html"), headers=_FRESH))
        return RedirectResponse("/" + comparison_path(base, candidate), 303)

    def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404)
        return Response(files[name], media_type=mimetypes.guess_type(name)[0], headers={"Cache-Control": "no-cache"})

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(request, served, ending), media_type="text/event-stream", headers=_FRESH)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        served.close()

    return Starlette(
        routes=[
            Route("/events", events, methods=["GET"]),
            Route("/assets/{name}", asset, methods=["GET"]),
            Route("/compare/index.html", comparison, methods=["GET"]),
            Route("/{path:path}", page, methods=["GET"]),
        ],
        middleware=[Middleware(_Guarded), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)],
        exception_handlers={HTTPException: _refused, Exception: _refused},
        lifespan=lifespan,
    )


_FRESH = {"Cache-Control": "no-store"}


class _Guarded:
    """Sends ``HEADERS`` with every answer, those too that are not made here, such as to a name that isn't ours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, guarded)


def _answered(path: str, answer: Callable[[], Response]) -> Response:
    """The answer, or a page that says why there is none."""
    try:
        return answer()
    except NoPageError as error:
        return HTMLResponse(apology(path, "Not found", str(error)), 404, _FRESH)
    except StoreError as error:
        return HTMLResponse(apology(path, "The store can't be read", str(error)), 503, _FRESH)


def _refused(request: Request, error: Exception) -> Response:
    status, own = (error.status_code, error.headers) if isinstance(error, HTTPException) else (500, None)
    words = {404: "There is no such page.", 405: "This server only answers GET and HEAD."}.get(status, "This can't be answered.")
    headers = {**HEADERS, **_FRESH, **(own or {})}  # what is answered to a fault of ours passes no middleware
    return HTMLResponse(apology(request.url.path.lstrip("/"), str(status), words), status, headers)


async def _events(request: Request, served: Served, ending: Callable[[], bool]) -> AsyncIterator[str]:
    """A message whenever the newest run has gone on, and a comment now and then by which a closed connection is noticed."""
    last, quiet = b"", 0
    while not (ending() or await request.is_disconnected()):
        try:
            now = msgspec.json.encode(await run_in_threadpool(lambda: progress(served.site().source)))
        except StoreError:  # the pages say so
            now = b"null"
        if now != last:
            yield f"data: {now.decode()}\n\n"
            last, quiet = now, 0
        elif (quiet := quiet + 1) % 15 == 0:
            yield ": still here\n\n"
        await asyncio.sleep(INTERVAL)
