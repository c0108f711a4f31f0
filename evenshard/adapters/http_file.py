"""Files over HTTP and HTTPS, read by byte ranges where the server gives them, whole where it does not.

Nothing but GET is asked, so a server without HEAD does. Whether ranges are given is seen from the answers: one
that is whole is taken as it is; one that is packed, or of another range than the one asked for, is asked for
again as a whole.
"""

from __future__ import annotations

import base64
import random
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import httpx

from evenshard.adapters.fetch import AGENT
from evenshard.adapters.http_watch import Watch
from evenshard.adapters.ranged import FileChangedError, FileFacts, UnreachableError
from evenshard.adapters.transport import TRANSLATED, describe, failure_of
from evenshard.core.answer import REDIRECTS
from evenshard.core.file_answer import Again, Body, Wanted, body_in
from evenshard.core.link import join_link
from evenshard.core.outcome import Failure, Reason
from evenshard.core.retry import final_failure, parse_retry_after, should_retry, wait_seconds
from evenshard.core.source_address import origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MAX_REDIRECTS: Final = 5
ATTEMPTS: Final = 4
ENOUGH_BYTES: Final = 1 << 20
"""An attempt that brought so much is not counted: a long file on a bad line comes in the end."""

CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0
HEAD_SECONDS: Final = 60.0
"""For the head of an answer, all redirects included, however it comes."""

LEAST_BYTES_PER_SECOND: Final = 20_000
"""A body that comes more slowly than this is given up."""


_TOO_SLOW: Final = f"no answer within {HEAD_SECONDS:.0f} s, or fewer than {LEAST_BYTES_PER_SECOND:,} bytes per second"


class _AgainError(Exception):
    """An answer is no use; another way of asking is."""

    def __init__(self, way: Again) -> None:
        super().__init__(way)
        self.way = way


class _FailedError(Exception):
    """An answer is no use, for this reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


class HttpFile:
    """One file at an address: see `Ranged`.

    Args:
        address: http or https, without a login.
        login: `user:password`, sent to the address's own host and to no other.
        facts: what the file was, to tell when it is another; None before that is known.
        sleep: waits between attempts.
        head_seconds: how long the head of an answer may take.
    """

    def __init__(
        self,
        address: str,
        *,
        login: str | None = None,
        facts: FileFacts | None = None,
        sleep: Callable[[float], None] = time.sleep,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        self._address, self._login, self._sleep, self._head_seconds = address, login, sleep, head_seconds
        self._num_bytes = None if facts is None else facts.num_bytes
        self._version = None if facts is None else facts.version
        self._since = "while it was looked at" if facts is None else "since it was planned"
        self._gives_ranges = self._takes_conditions = True

    def open(self, write: Callable[[int, bytes], None]) -> FileFacts:
        """Find out what the file is, and write its end, or all of it."""
        self._take(Wanted(), write)
        return FileFacts(num_bytes=self._num_bytes or 0, version=self._version or "")

    def read(self, start: int, stop: int, write: Callable[[int, bytes], None]) -> None:
        """Write the bytes [start, stop), or all of the file."""
        self._take(Wanted(start=start, stop=stop), write)

    def _take(self, wanted: Wanted, write: Callable[[int, bytes], None]) -> None:
        """Ask until everything has come; what came before a connection broke is not asked for again."""
        num_failed = 0
        while not wanted.is_done:
            wanted.num_came = 0
            failure = self._attempt(wanted, write)
            if failure is None or wanted.is_done:  # of a whole body, what broke off after that was not wanted
                continue
            num_failed += wanted.num_came < ENOUGH_BYTES
            if not should_retry(failure, attempt=num_failed, attempts=ATTEMPTS):
                raise UnreachableError(f"cannot be read: {_told(failure)}")
            self._sleep(wait_seconds(failure, attempt=max(1, num_failed), jitter=random.random()))  # noqa: S311 - spreads load

    def _attempt(self, wanted: Wanted, write: Callable[[int, bytes], None]) -> Failure | None:
        watch = Watch(self._head_seconds)
        try:
            with watch, self._answer(self._fields(wanted), watch) as response:
                self._receive(response, wanted, write, watch)
        except _AgainError as error:
            self._gives_ranges &= error.way is not Again.WITHOUT_RANGE
            self._takes_conditions &= error.way is not Again.WITHOUT_CONDITION
            return self._attempt(wanted, write)
        except _FailedError as error:
            return error.failure
        except TRANSLATED as error:
            return Failure(reason=Reason.TOO_SLOW, detail=_TOO_SLOW) if watch.expired else _failure_of(error)
        return None

    def _fields(self, wanted: Wanted) -> dict[str, str]:
        """Give the header fields of a request. Packed bodies have no ranges, so none is asked for."""
        fields = {"User-Agent": AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}
        if self._gives_ranges:
            fields["Range"] = wanted.field
        if self._takes_conditions and self._version:
            if self._version.startswith('"'):  # a weak tag, W/"...", cannot be asked for. Source: RFC 9110, 13.1.1
                fields["If-Match"] = self._version
            elif not self._version.startswith("W/"):
                fields["If-Unmodified-Since"] = self._version
        return fields

    @contextmanager
    def _answer(self, fields: dict[str, str], watch: Watch) -> Iterator[httpx.Response]:
        """Ask, and follow redirects. A signed address that one leads to is asked for anew each time: it expires."""
        address = self._address
        for _ in range(MAX_REDIRECTS + 1):
            response = self._send(address, fields, watch)
            try:
                if response.status_code not in REDIRECTS:
                    yield response
                    return
            finally:
                response.close()
            address = _target(response, address)
        raise _FailedError(Failure(reason=Reason.TOO_MANY_REDIRECTS, detail=f"more than {MAX_REDIRECTS} redirects"))

    def _send(self, address: str, fields: dict[str, str], watch: Watch) -> httpx.Response:
        """Send one request. Every hop passes here, and nowhere else, before a connection is made.

        A guard of addresses belongs here. The one that a person typed is meant, inside or not; what a public
        host redirects to is a stranger's word, and is not looked at yet.
        """
        if self._login is not None and origin_of(address) == origin_of(self._address):
            token = base64.b64encode(unquote(self._login).encode()).decode()
            fields = fields | {"Authorization": f"Basic {token}"}
        times = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS).as_dict()
        request = httpx.Request("GET", address, headers=fields, extensions={"timeout": times, "trace": watch.trace})
        response = _transport().handle_request(request)
        response.request = request
        return response

    def _receive(
        self, response: httpx.Response, wanted: Wanted, write: Callable[[int, bytes], None], watch: Watch
    ) -> None:
        """Take an answer: write what it holds, and note in `wanted` what is to come yet."""
        body = self._body(response, wanted)
        self._check(response, body.total)
        end = self._num_bytes if body.stop is None else body.stop
        watch.extend(self._head_seconds + (2**40 if end is None else end - body.start) / LEAST_BYTES_PER_SECOND)
        position = body.start
        for piece in _pieces(response, body):
            if end is not None and position + len(piece) > end:
                raise FileChangedError(f"has changed {self._since}: it is longer")
            write(position, piece)
            position += len(piece)
            wanted.take(len(piece), position, body)
        if not body.decoder.is_complete or (end or 0) > position or position < (wanted.stop or 0):
            raise _FailedError(_cut_short(position - body.start, end and end - body.start))
        self._check(response, position if body.stop is None else body.total)
        wanted.end()

    def _body(self, response: httpx.Response, wanted: Wanted) -> Body:
        """Say what an answer holds, if it can be taken."""
        status, headers = response.status_code, response.headers
        found = body_in(status, headers, wanted, gives_ranges=self._gives_ranges, num_bytes=self._num_bytes)
        if status in {404, 410} and self._num_bytes is not None:
            raise FileChangedError(f"is gone {self._since} (HTTP {status})")
        if found is Again.WITHOUT_CONDITION and not self._takes_conditions:
            found = Failure(reason=Reason.HTTP_STATUS, detail=f"HTTP {status}", http_status=status)
        if isinstance(found, Again):
            raise _AgainError(found)
        if isinstance(found, Failure):
            seconds = parse_retry_after(headers.get("retry-after"), now=time.time())
            raise _FailedError(replace(found, retry_after_seconds=seconds))
        return found

    def _check(self, response: httpx.Response, num_bytes: int | None) -> None:
        """Compare size and version with those known, and note them.

        Raises:
            FileChangedError: they are others.
        """
        version = response.headers.get("etag", "").strip() or response.headers.get("last-modified", "").strip()
        if self._version not in {None, version} or (num_bytes is not None and self._num_bytes not in {None, num_bytes}):
            raise FileChangedError(f"has changed {self._since}")
        self._version = version
        self._num_bytes = num_bytes if num_bytes is not None else self._num_bytes


def _pieces(response: httpx.Response, body: Body) -> Iterator[bytes]:
    """Give what an answer holds of a file; that there is no such range, is told in words that are not of the file."""
    for chunk in response.iter_raw() if body.stop != body.start else ():
        yield from body.decoder.pieces(chunk)


def _target(response: httpx.Response, address: str) -> str:
    location = response.headers.get("location", "").strip()
    target = join_link(address, location) if location else Failure(reason=Reason.BAD_REDIRECT, detail="no Location")
    if isinstance(target, Failure):
        detail = f"HTTP {response.status_code} leads nowhere: {target.detail}"
        raise _FailedError(Failure(reason=Reason.BAD_REDIRECT, detail=detail))
    return target


def _cut_short(num_came: int, num_wanted: int | None) -> Failure:
    of = "" if num_wanted is None else f" of {num_wanted}"
    return Failure(reason=Reason.CUT_SHORT, detail=f"the connection ended after {num_came}{of} bytes")


def _failure_of(error: BaseException) -> Failure:
    """Give the failure that an error stands for; a server that hangs up may not do so again."""
    if isinstance(error, httpx.RemoteProtocolError):
        return Failure(reason=Reason.CUT_SHORT, detail=describe(error))
    return failure_of(error)


def _told(failure: Failure) -> str:
    last = final_failure(failure)
    return last.detail or str(last.reason)


@lru_cache(maxsize=1)
def _transport() -> httpx.HTTPTransport:
    """Make what sends the requests of this process. No proxy, cookie or file of passwords is used.

    Each request has a connection of its own: that of a stand-in's next range may be minutes away.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.HTTPTransport(verify=httpx.create_ssl_context(trust_env=False), trust_env=False, limits=limits)
