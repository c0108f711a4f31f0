"""HTTP/1.1 through aiohttp behind httpx's transport interface, and what its errors mean.

httpx-aiohttp does nearly the same. What it cannot: it hands the address over as text, which aiohttp
then spells anew (`%2C` becomes `,`, which breaks signed links); it calls a connection that closed
early a connect time-out; and it leaves in place what aiohttp does by itself, which is to ask twice
where an answer breaks off, and to wait for ever where the framing of a body is broken.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections import deque
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx
import yarl
from aiohttp.http_exceptions import HttpProcessingError

from evenshard.adapters.resolver import AddressRefusedError, CheckedResolver, Guard, is_no_such_name
from evenshard.core.link import host_of
from evenshard.core.outcome import Failure, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

READ_BUFFER_BYTES: Final = 65_536
"""A connection is paused when twice this waits to be read."""

MAX_FIELD_BYTES: Final = 32_768
"""Longest header line that is taken; some sites' security policies pass aiohttp's own 8,190."""

GOOD_BYE_SECONDS: Final = 1.0
"""How long the closing of connections is waited for at the end."""

TRANSLATED: Final = (
    aiohttp.ClientError,
    httpx.HTTPError,
    httpx.InvalidURL,
    AddressRefusedError,
    OSError,
    UnicodeError,
    zlib.error,
    ExceptionGroup,
)
"""What `failure_of` understands."""

_REASONS: Final = (
    (AddressRefusedError, Reason.ADDRESS_REFUSED),
    (UnicodeError, Reason.BAD_LINK),
    (ssl.SSLError, Reason.TLS_FAILED),
    (socket.gaierror, Reason.NAME_NOT_RESOLVED),
    (httpx.InvalidURL, Reason.BAD_LINK),
    (aiohttp.InvalidURL, Reason.BAD_LINK),
    (aiohttp.ClientConnectorError, Reason.CONNECT_FAILED),
    (httpx.ConnectError, Reason.CONNECT_FAILED),
    (httpx.TimeoutException, Reason.TOO_SLOW),
    (zlib.error, Reason.BAD_ANSWER),
    (aiohttp.ClientResponseError, Reason.BAD_ANSWER),
    (httpx.ProtocolError, Reason.BAD_ANSWER),
    (OSError, Reason.CUT_SHORT),
    (httpx.NetworkError, Reason.CUT_SHORT),
    (aiohttp.ServerDisconnectedError, Reason.CUT_SHORT),
    (aiohttp.ClientPayloadError, Reason.CUT_SHORT),
)
"""The first that fits an error, or anything that caused it, counts: a refused certificate is also a
connection that failed, and a connection that failed is also an OSError."""


def failure_of(error: BaseException) -> Failure:
    """Give the failure that an error stands for; one that is not in the table breaks HTTP in some other way."""
    chain = list(_chain(error))
    if any(_is_bad_chunk(each) for each in chain):
        return Failure(reason=Reason.CUT_SHORT, detail=describe(error))
    if any(is_no_such_name(each) for each in chain):
        return Failure(reason=Reason.NO_SUCH_HOST, detail=describe(error))
    for kind, reason in _REASONS:
        for each in chain:
            if isinstance(each, kind):
                return Failure(reason=reason, detail=describe(each))
    return Failure(reason=Reason.BAD_ANSWER, detail=describe(error))


def describe(error: BaseException) -> str:
    """Write an error's type and message on one line of at most 300 characters."""
    kind = type(error)
    name = f"{kind.__module__}.error" if kind.__name__ == "error" else kind.__name__  # as zlib calls its own
    return " ".join(f"{name}: {error}".split())[:300]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, and the members of groups, the outermost first."""
    ahead, seen = deque([error]), set()
    while ahead:
        each = ahead.popleft()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        ahead.extend(each.exceptions if isinstance(each, BaseExceptionGroup) else ())
        ahead.extend(() if each.__cause__ is None else (each.__cause__,))


def _is_bad_chunk(error: BaseException) -> bool:
    """Say whether chunks were broken so early that aiohttp calls the head broken: when both came in one packet."""
    if not isinstance(error, HttpProcessingError):
        return False
    return "chunk" in error.message.partition(":")[0].lower()


class _BrokenOffError(aiohttp.ClientError):
    """An answer broke off. Under this name aiohttp does not ask again: how often, is the caller's to say."""


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # it is also the next one, and is not tried again anyway
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _BrokenOffError(str(error)) from error


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Ask through one aiohttp session. To be made where its event loop runs.

    No proxy, password file or cookie is used, no redirect followed, no body decoded, no time limited:
    all of that is the caller's.

    Args:
        context: the TLS settings, for all connections.
        max_connections: in use at once; a request beyond that waits.
        guard: checks every host before a connection to it is made.
    """

    def __init__(self, context: ssl.SSLContext, *, max_connections: int, guard: Guard) -> None:
        self._guard = guard
        self._resolver = CheckedResolver(guard)
        connector = aiohttp.TCPConnector(
            limit=max_connections,
            ssl=context,
            force_close=True,  # a kept connection can hold another answer than the one asked for, or be closing
            resolver=self._resolver,
            use_dns_cache=False,  # that resolver keeps what it has checked
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_once,),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=MAX_FIELD_BYTES,
            max_field_size=MAX_FIELD_BYTES,
        )
        self._open: set[asyncio.Future[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request without a body, and give the answer's head, with its body as it comes."""
        self._guard.check_literal(host_of(str(request.url)))
        answer = await self._session.request(
            request.method,
            yarl.URL(str(request.url), encoded=True),
            headers=[(name.decode("ascii"), value.decode("ascii")) for name, value in request.headers.raw],
            allow_redirects=False,
        )
        stream = _Stream(answer)
        if stream.closed is not None and stream.closed not in self._open:
            self._open.add(stream.closed)
            stream.closed.add_done_callback(self._forget)
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=stream, request=request)

    async def aclose(self) -> None:
        """Close all connections, and wait a moment for the good-byes of TLS that are under way."""
        await self._session.close()
        await self._resolver.close()
        if self._open:
            await asyncio.wait(self._open, timeout=GOOD_BYE_SECONDS)

    def _forget(self, closed: asyncio.Future[None]) -> None:
        self._open.discard(closed)
        if not closed.cancelled():
            closed.exception()  # how it ended is of no interest, but asyncio complains if nobody looks


class _Stream(httpx.AsyncByteStream):
    """The bytes of a body as they come from the wire.

    Where the framing turns out broken, aiohttp's parser closes the connection and tells nobody who
    waits for the body (seen with 3.14.5), so the end of the connection is watched here.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self._protocol = None if answer.connection is None else answer.connection.protocol
        self.closed = None if self._protocol is None else self._protocol.closed
        if self.closed is not None:
            self.closed.add_done_callback(self._end)
        elif self._protocol is not None:  # closed before anybody could look
            self._end()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._answer.content.iter_any()

    async def aclose(self) -> None:
        """Give the connection back, or cut it where the body was not read to its end."""
        if self.closed is not None:
            self.closed.remove_done_callback(self._end)
        if self._protocol is None or self._answer.content.is_eof():
            self._answer.release()
        else:
            self._protocol.abort()  # a plain close over TLS waits for the other side to say good-bye
            self._answer.close()

    def _end(self, _: asyncio.Future[None] | None = None) -> None:
        content = self._answer.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection ended within the body"))
