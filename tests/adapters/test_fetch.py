"""Fetching: every link ends as one whole body or one reason, soon, and at a bounded cost."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from evenshard.adapters import fetch as fetch_module
from evenshard.adapters.attempt import Terms
from evenshard.adapters.fetch import AGENT, Body, Fetcher, FetchOptions
from evenshard.core.address import OpenHosts
from evenshard.core.errors import OptionError
from evenshard.core.outcome import Failure, Reason, Status
from evenshard.core.retry import MAX_WAIT_SECONDS
from tests.support.misbehaving_web import LARGE_BYTES, MOMENT, PICTURE, MisbehavingWeb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TIMEOUT_SECONDS = 0.6
PATIENCE_SECONDS = 5.0
MAX_BODY_BYTES = 1_100_000
LOOPBACK = OpenHosts.parse(["127.0.0.1", "localhost"])


def options(**given: Any) -> FetchOptions:  # noqa: ANN401 - of FetchOptions
    """Give options for which the server of these tests, on loopback, is open."""
    return FetchOptions(**{"open_hosts": LOOPBACK, **given})


@dataclass
class FakeClock:
    """A clock on which waiting takes no time, unless it is told to hold the waiting until it is let go."""

    slept: list[float] = field(default_factory=list)
    let_go: threading.Event | None = None

    def now(self) -> float:
        """Give the moment that the server's dates start from."""
        return MOMENT

    async def sleep(self, seconds: float) -> None:
        """Note the wait."""
        self.slept.append(seconds)
        if self.let_go is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.let_go.wait)


@pytest.fixture(scope="module")
def web() -> Iterator[MisbehavingWeb]:
    """Give a server that misbehaves as each path says."""
    with MisbehavingWeb() as server:
        yield server


@pytest.fixture(scope="module")
def shared_clock() -> FakeClock:
    """Give a clock that does not wait."""
    return FakeClock()


@pytest.fixture
def clock(shared_clock: FakeClock) -> FakeClock:
    """Give the clock with nothing noted."""
    shared_clock.slept.clear()
    return shared_clock


@pytest.fixture(scope="module")
def fetcher(shared_clock: FakeClock) -> Iterator[Fetcher]:
    """Give a fetcher whose waits take no time, and whose deadline plays no part."""
    with Fetcher(options(timeout_seconds=PATIENCE_SECONDS), clock=shared_clock, random=Random(1)) as made:
        yield made


@pytest.fixture(scope="module")
def hasty(shared_clock: FakeClock) -> Iterator[Fetcher]:
    """Give a fetcher with a short deadline, for servers that never get done."""
    with Fetcher(options(timeout_seconds=TIMEOUT_SECONDS), clock=shared_clock) as made:
        yield made


@pytest.fixture
def patient() -> Iterator[Fetcher]:
    """Give a fetcher of its own to a test that looks at what it holds."""
    with Fetcher(options(timeout_seconds=30, concurrency=4, attempts=1, max_held_bytes=3 * LARGE_BYTES)) as made:
        yield made


def fetch_all(fetcher: Fetcher, links: list[str | None]) -> list[Body | Failure]:
    """Fetch, check that every position came once, and give the results in the order of the links."""
    results = list(fetcher.fetch(links, Terms(max_body_bytes=MAX_BODY_BYTES)))
    assert list(range(len(links))) == sorted(position for position, _ in results)
    return [result for _, result in sorted(results, key=lambda pair: pair[0])]


def fetch_one(fetcher: Fetcher, link: str | None) -> Body | Failure:
    """Fetch one link."""
    return fetch_all(fetcher, [link])[0]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is so, or fail."""
    end = time.monotonic() + 30
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        pause.wait(0.005)


GOOD = (
    "ok", "chunked", "until-close", "text-type", "long-field", "many-fields", "201", "gzip", "x-gzip", "gzip-chunked",
    "deflate", "deflate-raw", "identity", "to-absolute", "to-relative", "chain/1", "chain/5", "kept", "cookie",
    "in-two/ok", "in-two/chunked", "in-two/until-close", "in-two/gzip",
    *(f"to-ok-{status}" for status in (301, 302, 303, 307, 308)),
)  # fmt: skip


@pytest.mark.parametrize("path", GOOD)
def test_body_comes_whole(fetcher: Fetcher, web: MisbehavingWeb, path: str) -> None:
    """A good answer gives its body byte for byte, however it is framed, packed or redirected."""
    found = fetch_one(fetcher, f"{web.base}/{path}")

    assert isinstance(found, Body), found
    assert found.data == PICTURE
    assert (found.http_status, found.num_attempts) == (201 if path == "201" else 200, 1)


@dataclass(frozen=True)
class Case:
    """What a path must end as.

    Args:
        path: the behaviour.
        reason: of the failure.
        status: of the answer, if there was one.
        times: how often it is asked for.
        says: what the detail holds.
    """

    path: str
    reason: Reason
    status: int | None = 200
    times: int = 1
    says: str = ""


BAD = (
    Case("silent", Reason.TOO_SLOW, None, 3, "no byte of a body within 0.6 s"),
    Case("drip-head", Reason.TOO_SLOW, None, 3),
    Case("drip-body", Reason.TOO_SLOW, 200, 3),
    Case("stalled", Reason.TOO_SLOW, 200, 3, "a part of the body within 0.6 s"),
    Case("endless", Reason.TOO_LARGE, says="more came; the limit is 1100000 bytes"),
    Case("endless-chunks", Reason.TOO_LARGE),
    Case("declared", Reason.TOO_LARGE, says="10737418240 bytes are declared"),
    Case("bomb", Reason.TOO_LARGE, says="it unpacks to more"),
    Case("gzip-cut", Reason.CUT_SHORT, times=3, says="the content coding is cut"),
    Case("gzip-false", Reason.BAD_ANSWER, says="incorrect header check"),
    Case("gzip-empty", Reason.EMPTY_BODY),
    Case("brotli", Reason.BAD_ANSWER, says="'br'"),
    Case("zero", Reason.EMPTY_BODY),
    Case("zero-chunked", Reason.EMPTY_BODY),
    Case("204", Reason.EMPTY_BODY, 204),
    Case("204-lies", Reason.EMPTY_BODY, 204),
    Case("206", Reason.BAD_ANSWER, 206),
    Case("300", Reason.HTTP_STATUS, 300),
    Case("304", Reason.HTTP_STATUS, 304),
    Case("400", Reason.HTTP_STATUS, 400),
    Case("403", Reason.HTTP_STATUS, 403),
    Case("404", Reason.HTTP_STATUS, 404, says="HTTP 404"),
    Case("410", Reason.HTTP_STATUS, 410),
    Case("999", Reason.HTTP_STATUS, 999),
    Case("408", Reason.HTTP_SERVER_ERROR, 408, 3),
    Case("500", Reason.HTTP_SERVER_ERROR, 500, 3),
    Case("503", Reason.HTTP_SERVER_ERROR, 503, 3),
    Case("599", Reason.HTTP_SERVER_ERROR, 599, 3),
    Case("429", Reason.HTTP_RATE_LIMITED, 429, 3),
    Case("429-day", Reason.HTTP_RATE_LIMITED, 429, 1, "asks to wait 86400 s, more than the 30 s"),
    Case("503-day", Reason.HTTP_SERVER_ERROR, 503, 1, "asks to wait 86400 s"),
    Case("short", Reason.CUT_SHORT, 200, 3),
    Case("short-nothing", Reason.CUT_SHORT, 200, 3),
    Case("chunked-cut", Reason.CUT_SHORT, 200, 3),
    Case("chunked-cut-inside", Reason.CUT_SHORT, 200, 3),
    Case("chunked-bad-size", Reason.CUT_SHORT, None, 3),
    Case("chunked-bad-end", Reason.CUT_SHORT, None, 3),
    Case("in-two/chunked-bad-size", Reason.CUT_SHORT, 200, 3),
    Case("in-two/chunked-bad-end", Reason.CUT_SHORT, 200, 3),
    Case("in-two/chunked-cut-inside", Reason.CUT_SHORT, 200, 3),
    Case("in-two/short", Reason.CUT_SHORT, 200, 3),
    Case("in-two/gzip-false", Reason.BAD_ANSWER),
    Case("reset-in-body", Reason.CUT_SHORT, 200, 3),
    Case("reset-at-once", Reason.CUT_SHORT, None, 3),
    Case("no-answer", Reason.CUT_SHORT, None, 3),
    Case("half-a-head", Reason.CUT_SHORT, None, 3),
    Case("garbage", Reason.BAD_ANSWER, None),
    Case("endless-field", Reason.BAD_ANSWER, None),
    Case("bad-length", Reason.BAD_ANSWER, None),
    Case("two-lengths", Reason.BAD_ANSWER, None),
    Case("to-nowhere", Reason.BAD_REDIRECT, 302, says="without a Location"),
    Case("to-blank", Reason.BAD_REDIRECT, 302),
    Case("to-file", Reason.BAD_REDIRECT, 302, says="file: is not fetched"),
    Case("to-ftp", Reason.BAD_REDIRECT, 302),
    Case("to-data", Reason.BAD_REDIRECT, 302),
    Case("to-broken", Reason.BAD_REDIRECT, 302),
    Case("to-self", Reason.TOO_MANY_REDIRECTS, 302, 6, "more than 5"),
    Case("loop-a", Reason.TOO_MANY_REDIRECTS, 302, 3),
    Case("chain/6", Reason.TOO_MANY_REDIRECTS, 302),
    Case("chain/60", Reason.TOO_MANY_REDIRECTS, 302),
    Case("to-404", Reason.HTTP_STATUS, 404),
    Case("to-short", Reason.CUT_SHORT, 200, 3),
    Case("to-refused", Reason.CONNECT_FAILED, 302, 3),
)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.path)
def test_failure_is_named_and_asked_again_only_if_it_may_pass(
    fetcher: Fetcher, hasty: Fetcher, web: MisbehavingWeb, case: Case
) -> None:
    """Each misbehaviour has its own reason, costs as many requests as its kind allows, and keeps no byte."""
    web.hits.clear()
    used = hasty if case.reason == Reason.TOO_SLOW else fetcher
    used._budget.peak_bytes = 0
    found = fetch_one(used, f"{web.base}/{case.path}")

    assert isinstance(found, Failure)
    assert (found.reason, found.http_status) == (case.reason, case.status), found
    assert web.hits[f"/{case.path}"] == case.times
    assert case.says in found.detail
    assert used._budget.held_bytes == 0
    assert used._budget.peak_bytes <= MAX_BODY_BYTES


@pytest.mark.parametrize(
    ("path", "last"),
    [("to-404", "404"), ("to-self", None), ("loop-a", "loop-b"), ("chain/60", "chain/55"), ("to-file", None),
     ("to-short", "short"), ("404", None)],
)  # fmt: skip
def test_failure_names_last_address_when_redirected(
    fetcher: Fetcher, web: MisbehavingWeb, path: str, last: str | None
) -> None:
    """A failure after redirects says which address was asked last, where that is not the row's own."""
    found = fetch_one(fetcher, f"{web.base}/{path}")

    assert isinstance(found, Failure)
    assert found.url == (f"{web.base}/{last}" if last else None)


def test_body_names_last_address_when_redirected(fetcher: Fetcher, web: MisbehavingWeb) -> None:
    """A body says which address gave it, spelled as it was asked for."""
    found = fetch_one(fetcher, f"{web.base}/to-query")

    assert isinstance(found, Body)
    assert found.url == f"{web.base}/echo?a=%2C%7Cb%20c"
    assert found.data == b"/echo?a=%2C%7Cb%20c"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("/echo?sig=a%2Cb%3D%2F%7E%40", "/echo?sig=a%2Cb%3D%2F%7E%40"),
        ("/echo/a b/é?q=ü&r=%20#part", "/echo/a%20b/%C3%A9?q=%C3%BC&r=%20"),
        ("/echo?a=1&amp;b=2", "/echo?a=1&amp;b=2"),
        ("/echo/100%.jpg?+'()*", "/echo/100%25.jpg?+'()*"),
        ("/echo//double/./x/../y", "/echo//double/y"),
    ],
    ids=["signed", "escaped-once", "entity", "lone-percent", "dots"],
)
def test_address_is_sent_as_it_is_spelled(fetcher: Fetcher, web: MisbehavingWeb, link: str, target: str) -> None:
    """The server gets the spelling of the table, escaped once where it must be, and nothing else of it changed."""
    found = fetch_one(fetcher, f"  {web.base}{link}\n")

    assert isinstance(found, Body)
    assert found.data == target.encode()


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        (None, Reason.NO_LINK),
        ("", Reason.NO_LINK),
        (" \n\t ", Reason.NO_LINK),
        ("file:///etc/passwd", Reason.BAD_SCHEME),
        ("data:image/gif;base64,R0lGODlhAQABAAAAACw=", Reason.BAD_SCHEME),
        ("ftp://127.0.0.1/ok", Reason.BAD_SCHEME),
        ("//127.0.0.1/ok", Reason.BAD_SCHEME),
        ("127.0.0.1/ok", Reason.BAD_SCHEME),
        ("http://", Reason.BAD_LINK),
        ("http://[::1", Reason.BAD_LINK),
        ("http://127.0.0.1:99999/", Reason.BAD_LINK),
        ("http://127.0.0.1/\x00", Reason.BAD_LINK),
    ],
)
def test_link_that_cannot_be_asked_costs_no_request(
    fetcher: Fetcher, web: MisbehavingWeb, link: str, reason: Reason
) -> None:
    """A link that is none, or not of the web, is a failure of its row without any request, and no file is read."""
    web.hits.clear()
    found = fetch_one(fetcher, link)

    assert isinstance(found, Failure)
    assert found.reason == reason
    assert not web.hits


def test_refused_connection_when_nothing_listens(fetcher: Fetcher, clock: FakeClock) -> None:
    """A port that refuses is tried again, and then says that nothing answered."""
    found = fetch_one(fetcher, "http://127.0.0.1:1/x")

    assert isinstance(found, Failure)
    assert (found.reason, len(clock.slept)) == (Reason.CONNECT_FAILED, 2)


@pytest.mark.parametrize(
    ("code", "reason", "num_asked"),
    [
        (socket.EAI_NONAME, Reason.NO_SUCH_HOST, 1),
        (socket.EAI_AGAIN, Reason.NAME_NOT_RESOLVED, 3),
        (socket.EAI_FAIL, Reason.NAME_NOT_RESOLVED, 3),
    ],
    ids=["no such name", "nobody knows now", "resolver failed"],
)
def test_name_that_does_not_resolve_is_told_apart(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, code: int, reason: Reason, num_asked: int
) -> None:
    """A name that does not exist is asked for once in a run; a resolver in trouble is asked again; neither is a 404."""
    asked: list[object] = []

    def resolve_nothing(host: object, *_: object, **__: object) -> None:
        asked.append(host)
        raise socket.gaierror(code, "says the resolver")

    monkeypatch.setattr(socket, "getaddrinfo", resolve_nothing)
    with Fetcher(options(), clock=clock) as fetcher:
        found = [fetch_one(fetcher, "http://nobody.invalid/x") for _ in range(2)]

    assert [reason] * 2 == [each.reason for each in found if isinstance(each, Failure)]
    assert len(asked) == (num_asked if reason is Reason.NO_SUCH_HOST else 2 * num_asked)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a key and a certificate for 127.0.0.1 that nobody has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + made.public_bytes(pem))
    return path


@pytest.fixture(scope="module")
def secure_web(certificate: Path) -> Iterator[MisbehavingWeb]:
    """Give the server behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with MisbehavingWeb(context=context) as server:
        yield server


def test_unsigned_certificate_is_refused_once(fetcher: Fetcher, secure_web: MisbehavingWeb, clock: FakeClock) -> None:
    """A certificate that nobody vouches for fails the row as TLS, and is not tried again."""
    found = fetch_one(fetcher, f"{secure_web.base}/ok")

    assert isinstance(found, Failure)
    assert (found.reason, clock.slept) == (Reason.TLS_FAILED, [])
    assert not secure_web.hits


def test_certificate_of_known_authority_is_taken(
    secure_web: MisbehavingWeb, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over TLS a body comes if the certificate is vouched for and names the host; one context serves all."""
    made: list[ssl.SSLContext] = []

    def trust_ours(**_: object) -> ssl.SSLContext:
        made.append(ssl.create_default_context(cafile=str(certificate)))
        return made[-1]

    monkeypatch.setattr(httpx, "create_ssl_context", trust_ours)
    named = secure_web.base.replace("127.0.0.1", "localhost")
    with Fetcher(options(attempts=1)) as fetcher:
        named_right, named_wrong = fetch_all(fetcher, [f"{named}/ok", f"{secure_web.base}/ok"])

    assert isinstance(named_right, Body)
    assert isinstance(named_wrong, Failure)
    assert named_wrong.reason == Reason.TLS_FAILED
    assert len(made) == 1


def test_tls_to_plain_port_fails_as_tls(fetcher: Fetcher, web: MisbehavingWeb, clock: FakeClock) -> None:
    """A handshake that a plain port cannot answer fails the row as TLS, and is not tried again."""
    found = fetch_one(fetcher, f"https://127.0.0.1:{web.port}/ok")

    assert isinstance(found, Failure)
    assert (found.reason, clock.slept) == (Reason.TLS_FAILED, [])


def test_plain_http_to_tls_port_is_a_named_failure(fetcher: Fetcher, secure_web: MisbehavingWeb) -> None:
    """Plain HTTP spoken to a TLS port ends as a failure of the answer."""
    found = fetch_one(fetcher, f"http://127.0.0.1:{secure_web.port}/ok")

    assert isinstance(found, Failure)
    assert found.reason in {Reason.BAD_ANSWER, Reason.CUT_SHORT}


@pytest.mark.parametrize(
    ("path", "low", "high"),
    [
        ("429-seconds", [2], [2]),
        ("429-date", [7], [7]),
        ("429-nonsense", [0.25], [0.75]),
        ("503-twice", [0.25, 0.5], [0.75, 1.5]),
    ],
)
def test_wait_before_next_attempt(  # noqa: PLR0917 - a table's columns
    fetcher: Fetcher, web: MisbehavingWeb, clock: FakeClock, path: str, low: list[float], high: list[float]
) -> None:
    """The wait is what the server asked for, or else about half a second, doubled each time; then the body counts."""
    found = fetch_one(fetcher, f"{web.base}/{path}?wait")

    assert isinstance(found, Body)
    assert found.num_attempts == len(low) + 1
    assert len(clock.slept) == len(low)
    assert all(a <= wait <= b for a, wait, b in zip(low, clock.slept, high, strict=True)), clock.slept


def test_too_long_wait_is_not_waited_for(fetcher: Fetcher, web: MisbehavingWeb, clock: FakeClock) -> None:
    """A server that asks for a day gets no second request, and the row keeps how long was asked."""
    found = fetch_one(fetcher, f"{web.base}/429-day")

    assert isinstance(found, Failure)
    assert (found.retry_after_seconds, clock.slept) == (86_400, [])
    assert found.retry_after_seconds == 86_400 > MAX_WAIT_SECONDS


def test_waiting_row_holds_no_place(web: MisbehavingWeb) -> None:
    """With one place, other rows go on while a row waits for its next attempt."""
    let_go = threading.Event()
    clock = FakeClock(let_go=let_go)
    links: list[str | None] = [f"{web.base}/503-twice?place", f"{web.base}/ok?1", f"{web.base}/ok?2"]
    order = []
    with Fetcher(options(concurrency=1), clock=clock) as fetcher:
        for position, _ in fetcher.fetch(links, Terms(max_body_bytes=MAX_BODY_BYTES)):
            order.append(position)
            if len(order) == 2:
                let_go.set()

    assert order == [1, 2, 0]


@pytest.mark.parametrize("concurrency", [1, 32])
def test_every_position_once_whatever_the_concurrency(web: MisbehavingWeb, clock: FakeClock, concurrency: int) -> None:
    """Each row has one result, and the same one, with one request at a time and with many."""
    paths = ("ok", "404", "to-absolute", "503-twice", "gzip", "short", "kept", "zero", "chain/3", "429-seconds")
    links = [f"{web.base}/{paths[n % 10]}?{concurrency}-{n}" if n % 7 else None for n in range(150)]
    links = [link.replace("chain/3", "ok") if link else None for link in links]
    with Fetcher(options(concurrency=concurrency), clock=clock) as fetcher:
        found = fetch_all(fetcher, links)

    kinds = [result.reason if isinstance(result, Failure) else result.data for result in found]
    told = {"404": Reason.HTTP_STATUS, "short": Reason.CUT_SHORT, "zero": Reason.EMPTY_BODY}
    assert kinds == [told.get(paths[n % 10], PICTURE) if n % 7 else Reason.NO_LINK for n in range(150)]


def test_same_link_in_several_rows_gives_each_its_own(fetcher: Fetcher, web: MisbehavingWeb) -> None:
    """Equal links are rows of their own."""
    found = fetch_all(fetcher, [f"{web.base}/ok?same"] * 3)

    assert [PICTURE] * 3 == [result.data for result in found if isinstance(result, Body)]
    assert web.hits["/ok?same"] == 3


def test_no_links_give_no_results(fetcher: Fetcher) -> None:
    """An empty table ends at once."""
    assert fetch_all(fetcher, []) == []


def test_deadline_covers_all_redirects_and_the_body(web: MisbehavingWeb, hasty: Fetcher) -> None:
    """A drip cannot pass the deadline, and rows are done within attempts times the deadline."""
    start = time.monotonic()
    links: list[str | None] = [f"{web.base}/{path}" for path in ("drip-body", "drip-head", "silent", "stalled")]
    links *= 4
    found = fetch_all(hasty, links)

    assert {Reason.TOO_SLOW} == {result.reason for result in found if isinstance(result, Failure)}
    assert time.monotonic() - start < 3 * TIMEOUT_SECONDS + 8  # a drip would take minutes


@pytest.mark.parametrize("path", ["declared", "endless", "404"])
def test_refused_body_is_not_read(fetcher: Fetcher, web: MisbehavingWeb, path: str) -> None:
    """What is refused on its head, or on its length, stops coming: buffers aside, no more than the limit is read."""
    fetch_one(fetcher, f"{web.base}/{path}?unread")

    wait_until(lambda: web.num_open == 0)
    assert web.num_sent_bytes[f"/{path}?unread"] < MAX_BODY_BYTES + 20_000_000


def test_asker_names_itself_and_keeps_nothing(
    web: MisbehavingWeb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Requests say honestly who asks, want no coding, and carry no cookie, password file, proxy or fragment."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    web.seen.clear()
    with Fetcher(options(concurrency=1)) as fetcher:
        found = fetch_all(fetcher, [f"{web.base}/cookie", f"{web.base}/cookie#part"])

    assert all(isinstance(result, Body) for result in found)
    assert [target for target, _ in web.seen] == ["/cookie", "/cookie"]
    for _, fields in web.seen:
        assert (fields["user-agent"], fields["accept-encoding"]) == (AGENT, "identity")
        assert not {"cookie", "authorization", "proxy-connection"} & set(fields)


def test_contact_is_named_when_one_is_given(web: MisbehavingWeb) -> None:
    """The owner of a server learns how to reach who asks."""
    web.seen.clear()
    with Fetcher(options(contact="https://example.org/about-our-crawl")) as fetcher:
        fetch_one(fetcher, f"{web.base}/ok")

    assert f"{AGENT} (+https://example.org/about-our-crawl)" == web.seen[0][1]["user-agent"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("noai", Reason.OPTED_OUT),
        ("noindex-later", Reason.OPTED_OUT),
        ("noai-for-others", None),
        ("noai-404", Reason.HTTP_STATUS),
    ],
)
@pytest.mark.parametrize("respect", [True, False])
def test_opt_out_is_respected_unless_told_otherwise(
    fetcher: Fetcher, web: MisbehavingWeb, path: str, reason: Reason | None, respect: bool
) -> None:
    """A body whose server says no is left on purpose, not failed, and not read; the switch takes it."""
    terms = Terms(max_body_bytes=MAX_BODY_BYTES, respect_opt_outs=respect)
    ((_, found),) = fetcher.fetch([f"{web.base}/{path}"], terms)

    expected = None if reason is Reason.OPTED_OUT and not respect else reason
    assert expected == (found.reason if isinstance(found, Failure) else None)
    if expected is Reason.OPTED_OUT:
        assert isinstance(found, Failure)
        assert Status.FILTERED is found.status


def test_one_host_never_sees_more_than_its_limit(web: MisbehavingWeb) -> None:
    """5,000 links to one host, half of them by way of a redirect: no more than the limit at once, and all come."""
    web.peak_open = 0
    links: list[str | None] = [f"{web.base}{'/to?' if n % 2 else ''}/after-a-moment?{n}" for n in range(5_000)]
    with Fetcher(options(concurrency=64, per_host=5)) as fetcher:
        found = fetch_all(fetcher, links)

    assert [True] * 5_000 == [isinstance(result, Body) for result in found]
    assert 5 == web.peak_open


def test_other_hosts_go_on_when_one_is_at_its_limit(web: MisbehavingWeb) -> None:
    """Rows of a host with no free place step aside: those behind them, of another host, come first."""
    chosen = options(concurrency=4, per_host=1, open_hosts=OpenHosts.parse(["127.0.0.1", "127.0.0.3"]))
    with MisbehavingWeb(host="127.0.0.3") as other, Fetcher(chosen) as fetcher:
        links: list[str | None] = [*(f"{web.base}/slowly?aside-{n}" for n in range(60)), *[f"{other.base}/ok"] * 8]
        order = [position for position, _ in fetcher.fetch(links, Terms(max_body_bytes=MAX_BODY_BYTES))]

    assert sorted(order) == list(range(68))
    assert max(order.index(position) for position in range(60, 68)) < 60


def test_rest_of_a_slice_is_held_up_by_a_drip_no_longer_than_its_deadlines(web: MisbehavingWeb) -> None:
    """A server that drips to all 64 connections costs the rest no more than deadline x attempts."""
    links: list[str | None] = [*(f"{web.base}/drip-body?{n}" for n in range(64)), *[f"{web.base}/ok"] * 200]
    chosen = options(concurrency=64, per_host=64, timeout_seconds=3.0, attempts=2)
    with Fetcher(chosen) as fetcher:
        start, ended = time.monotonic(), {}
        for position, result in fetcher.fetch(links, Terms(max_body_bytes=MAX_BODY_BYTES)):
            ended[position] = (time.monotonic() - start, result)

    assert {Reason.TOO_SLOW} == {r.reason for p, (_, r) in ended.items() if p < 64 and isinstance(r, Failure)}
    rest = [(seconds, result) for position, (seconds, result) in ended.items() if position >= 64]
    assert all(isinstance(result, Body) for _, result in rest)
    assert max(seconds for seconds, _ in rest) <= 2 * 3.0


def test_each_request_has_a_connection_of_its_own(web: MisbehavingWeb) -> None:
    """A kept connection may hold a surplus answer, which would be taken for the next row's."""
    before = web.num_connections
    with Fetcher(options(concurrency=1)) as fetcher:
        fetch_all(fetcher, [f"{web.base}/kept"] * 10)

    assert web.num_connections - before == 10


def test_requests_in_flight_are_bounded_over_all_threads(web: MisbehavingWeb, patient: Fetcher) -> None:
    """Two threads that fetch at the same time share the places of the process."""
    web.peak_open = 0
    links: list[str | None] = [f"{web.base}/ok?{n}" for n in range(60)]
    counts: Counter[type] = Counter()

    def count() -> None:
        counts.update(type(result) for result in fetch_all(patient, links))

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counts == {Body: 120}
    assert web.peak_open <= 4


def test_held_bytes_are_bounded_when_consumer_is_slow(web: MisbehavingWeb, patient: Fetcher) -> None:
    """While nobody takes results, requests stop at the byte limit, which one body may pass; then all come."""
    web.hits.clear()
    links: list[str | None] = [f"{web.base}/large?{n}" for n in range(20)]
    with closing(patient.fetch(links, Terms(max_body_bytes=MAX_BODY_BYTES))) as results:
        next(results)
        wait_until(lambda: patient._budget.held_bytes >= 3 * LARGE_BYTES)
        asked_early = len(web.hits)
        rest = [result for _, result in results]

    assert asked_early <= 1 + 3 + 4
    assert [LARGE_BYTES] * 19 == [len(result.data) for result in rest if isinstance(result, Body)]
    assert patient._budget.peak_bytes <= 4 * LARGE_BYTES
    wait_until(lambda: patient._budget.held_bytes == 0)


@pytest.mark.parametrize("max_held_bytes", [1, LARGE_BYTES // 2, LARGE_BYTES + 1])
def test_small_budget_still_gets_done(web: MisbehavingWeb, max_held_bytes: int) -> None:
    """A limit below one body slows rows down to one at a time, and stops none."""
    with Fetcher(options(concurrency=8, max_held_bytes=max_held_bytes, attempts=1)) as fetcher:
        found = fetch_all(fetcher, [f"{web.base}/large?{max_held_bytes}-{n}" for n in range(10)])
        peak = fetcher._budget.peak_bytes

    assert all(isinstance(result, Body) for result in found)
    assert peak <= max_held_bytes + LARGE_BYTES


def test_wait_for_room_does_not_count_against_the_deadline(web: MisbehavingWeb) -> None:
    """A consumer slower than the deadline makes no row late."""
    chosen = options(concurrency=4, max_held_bytes=LARGE_BYTES // 4, attempts=1, timeout_seconds=1.0)
    links: list[str | None] = [f"{web.base}/large?late-{n}" for n in range(6)]
    with Fetcher(chosen) as fetcher, closing(fetcher.fetch(links, Terms(max_body_bytes=MAX_BODY_BYTES))) as results:
        found = [next(results)[1]]
        wait_until(lambda: bool(fetcher._budget._waiting))
        due = time.monotonic() + 1.5 * chosen.timeout_seconds
        wait_until(lambda: time.monotonic() > due)
        found += [result for _, result in results]

    assert [True] * 6 == [isinstance(result, Body) for result in found]


def test_room_is_found_when_a_body_fails(web: MisbehavingWeb) -> None:
    """Bodies that break off or are too large give back what they held, and the rest comes."""
    paths = ["stalled", "short", "gzip-cut", "bomb", "endless", "reset-in-body", "large"] * 4
    chosen = options(concurrency=8, max_held_bytes=LARGE_BYTES, attempts=1, timeout_seconds=1)
    with Fetcher(chosen) as fetcher:
        found = fetch_all(fetcher, [f"{web.base}/{path}?room-{n}" for n, path in enumerate(paths)])
        wait_until(lambda: fetcher._budget.held_bytes == 0)

    assert sum(isinstance(result, Body) for result in found) == 4


@pytest.mark.parametrize("how", ["close", "error", "drop"])
def test_early_stop_cancels_everything(web: MisbehavingWeb, patient: Fetcher, how: str) -> None:
    """When the consumer stops, its requests end at once, their bytes and places are free, and the next call works."""
    links: list[str | None] = [f"{web.base}/ok", *[f"{web.base}/silent?{how}"] * 10, f"{web.base}/large"]
    start = time.monotonic()
    for _ in range(5):
        results = patient.fetch(links, Terms(max_body_bytes=MAX_BODY_BYTES))
        next(results)
        if how == "close":
            results.close()
        elif how == "error":
            with pytest.raises(ZeroDivisionError), closing(results):
                raise ZeroDivisionError
        del results
        gc.collect()
    wait_until(lambda: web.num_open == 0)

    assert isinstance(fetch_one(patient, f"{web.base}/ok"), Body)
    wait_until(lambda: patient._budget.held_bytes == 0)
    assert time.monotonic() - start < 4 * PATIENCE_SECONDS  # five times that, had each waited for its silent ones


def test_call_that_was_never_started_ends_quietly(patient: Fetcher) -> None:
    """Nothing begins before the first result is asked for."""
    patient.fetch(["http://127.0.0.1:1/"], Terms(max_body_bytes=1))


def test_close_ends_a_waiting_consumer(web: MisbehavingWeb) -> None:
    """Closing from another thread ends the consumer's wait with an error, and leaves no thread."""
    fetcher = Fetcher(options(timeout_seconds=60))
    errors: list[str] = []

    def consume() -> None:
        try:
            fetch_all(fetcher, [f"{web.base}/silent?closed"])
        except RuntimeError as error:
            errors.append(str(error))

    consumer = threading.Thread(target=consume)
    consumer.start()
    wait_until(lambda: web.hits["/silent?closed"] == 1)
    fetcher.close()
    consumer.join(30)

    assert errors == ["the fetcher ended before every row had its result"]
    assert not fetcher._thread._thread.is_alive()


def test_closed_fetcher_refuses(patient: Fetcher) -> None:
    """Closing twice does nothing, and a closed fetcher says so instead of waiting for ever."""
    patient.close()
    patient.close()

    with pytest.raises(RuntimeError, match="this fetcher is closed"):
        fetch_all(patient, ["http://127.0.0.1:1/"])


def test_unforeseen_error_fails_its_row_only(
    web: MisbehavingWeb, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that nobody thought of becomes one row's failure, with its type and message, and is logged."""

    class Odd(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path == "/odd":
                raise LookupError("who knows")
            return httpx.Response(200, content=PICTURE)

    async def odd_transport(_: FetchOptions) -> httpx.AsyncBaseTransport:
        return Odd()

    monkeypatch.setattr(fetch_module, "_transport", odd_transport)
    with Fetcher(options()) as fetcher:
        odd, even = fetch_all(fetcher, [f"{web.base}/odd", f"{web.base}/even"])

    assert odd == Failure(reason=Reason.BAD_ANSWER, detail="LookupError: who knows")
    assert isinstance(even, Body)
    assert "the row at position 0 failed in an unforeseen way" in caplog.text


@pytest.mark.parametrize(
    ("path", "reason"),
    [("ok", None), ("silent", Reason.TOO_SLOW), ("404", Reason.HTTP_STATUS), ("to-refused", Reason.CONNECT_FAILED),
     ("gzip-false", Reason.BAD_ANSWER), ("declared", Reason.TOO_LARGE), ("reset-in-body", Reason.CUT_SHORT)],
)  # fmt: skip
def test_other_transports_keep_the_promises(
    web: MisbehavingWeb, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, path: str, reason: Reason | None
) -> None:
    """What the rules say holds for httpx's own transport too: none of them rests on aiohttp."""

    async def own_transport(_: FetchOptions) -> httpx.AsyncBaseTransport:
        return httpx.AsyncHTTPTransport(trust_env=False)

    monkeypatch.setattr(fetch_module, "_transport", own_transport)
    seconds = TIMEOUT_SECONDS if reason is Reason.TOO_SLOW else PATIENCE_SECONDS
    with Fetcher(options(timeout_seconds=seconds), clock=clock) as fetcher:
        found = fetch_one(fetcher, f"{web.base}/{path}")

    assert (found.reason if isinstance(found, Failure) else None) == reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency: 0 is out of range; it must be from 1 to 1024"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds: nan is out of range; it must be from 0.05 to 3600"),
        ({"attempts": 0}, "attempts: 0 is out of range; it must be from 1 to 10"),
        ({"max_redirects": -1}, "max_redirects: -1 is out of range; it must be from 0 to 20"),
        ({"max_held_bytes": 0}, "max_held_bytes: 0 is out of range"),
        ({"per_host": 0}, "per_host: 0 is out of range; it must be from 1 to 1024"),
        ({"contact": "a\r\nb: c"}, "contact: 'a\\r\\nb: c' is not at most 256 printable ASCII characters"),
        ({"contact": "x" * 257}, "is not at most 256 printable ASCII characters"),
    ],
)
def test_option_out_of_range_is_named(options: dict[str, int], message: str) -> None:
    """A wrong option is refused with its name, its value and what it may be."""
    with pytest.raises(OptionError) as error:
        FetchOptions(**options)  # type: ignore[arg-type]

    assert message in str(error.value)
