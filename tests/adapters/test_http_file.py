"""Files over HTTP: whole or by ranges, over every kind of server, and never two versions in one."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters.http_file import ATTEMPTS, ENOUGH_BYTES, HttpFile
from evenshard.adapters.ranged import FileChangedError, FileFacts, StandIn, UnreachableError
from tests.support.file_web import DATE, ETAG, Asked, FileWeb, Reply, packed, plain, ranged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = bytes(range(256)) * 1_200  # 307,200 bytes: more than the end that is asked for first


def weak(data: bytes, asked: Asked) -> Reply:
    """Give ranges under a tag that must not be compared by the server."""
    assert "if-match" not in asked.fields
    return ranged(data, asked, etag='W/"v1"')


def dated(data: bytes, asked: Asked) -> Reply:
    """Give ranges with a date in place of a tag."""
    return ranged(data, asked, etag="", date=DATE)


def nameless(data: bytes, asked: Asked) -> Reply:
    """Give ranges of a file that has no version."""
    return ranged(data, asked, etag="")


def until_close(data: bytes, _: Asked) -> Reply:
    """Do not say how long the file is."""
    return Reply(body=data, fields={"Content-Length": "", "Connection": "close"}, cut=len(data))


def no_ends(data: bytes, asked: Asked) -> Reply:
    """Refuse ranges that are counted from the end."""
    return Reply(status=416) if "=-" in asked.fields.get("range", "") else ranged(data, asked)


def other_range(data: bytes, asked: Asked) -> Reply:
    """Give another range than the one that was asked for, and say so."""
    if "range" not in asked.fields:
        return plain(data, asked)
    return Reply(status=206, body=data[5:15], fields={"Content-Range": f"bytes 5-14/{len(data)}"})


def no_content_range(data: bytes, asked: Asked) -> Reply:
    """Give a part without saying which."""
    return plain(data, asked) if "range" not in asked.fields else Reply(status=206, body=data[:10])


def packed_range(data: bytes, asked: Asked) -> Reply:
    """Give parts of a packed file."""
    if "range" not in asked.fields:
        return packed(data, asked)
    fields = {"Content-Encoding": "gzip", "Content-Range": f"bytes 0-9/{len(data)}"}
    return Reply(status=206, body=data[:10], fields=fields)


def wrong_condition(data: bytes, asked: Asked) -> Reply:
    """Take every condition for unmet, as a server does that spells its tags in two ways."""
    return Reply(status=412) if "if-match" in asked.fields else ranged(data, asked)


def short_parts(data: bytes, asked: Asked) -> Reply:
    """Give at most 40,000 bytes at once."""
    reply = ranged(data, asked)
    part, last = reply.body[:40_000], reply.fields["Content-Range"].split("-")[0]
    start = int(last.split()[1])
    if "=-" in asked.fields["range"]:
        return reply
    return Reply(
        status=206,
        body=part,
        fields={"ETag": ETAG, "Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(data)}"},
    )


def to_signed(_: bytes, asked: Asked) -> Reply:
    """Send on to a signed address."""
    return Reply(status=307, fields={"Location": f"/signed/x?for={asked.target.count('/')}&X-Amz-Signature=SECRET"})


WAYS: dict[str, Callable[[bytes, Asked], Reply]] = {
    "ranged": ranged,
    "plain": plain,
    "packed": packed,
    "weak": weak,
    "dated": dated,
    "nameless": nameless,
    "until-close": until_close,
    "no-ends": no_ends,
    "other-range": other_range,
    "no-content-range": no_content_range,
    "packed-range": packed_range,
    "wrong-condition": wrong_condition,
    "redirect": to_signed,
    "signed": ranged,
}
GOOD = [way for way in WAYS if way != "signed"]


@pytest.fixture
def web() -> Iterator[FileWeb]:
    """Serve the file in every way."""
    with FileWeb(DATA, dict(WAYS)) as server:
        yield server


def file_at(web: FileWeb, way: str, **given: Any) -> HttpFile:  # noqa: ANN401 - of HttpFile
    """Give the file in one way; no wait takes time."""
    return HttpFile(f"{web.address}/{way}/x.parquet", **{"sleep": lambda _: None, **given})


def bytes_of(stand_in: StandIn, start: int, stop: int) -> bytes:
    """Read a range that was fetched."""
    with Path(stand_in.path).open("rb") as file:
        file.seek(start)
        return file.read(stop - start)


@pytest.mark.parametrize("way", GOOD)
def test_bytes_are_the_files_when_read_in_any_way(web: FileWeb, way: str) -> None:
    """With and without ranges, packed, redirected: size, version, and ranges in any order are the file's own."""
    with closing(StandIn(file_at(web, way))) as first:
        facts = first.facts
        first.fetch([(len(DATA) - 100, len(DATA)), (7, 1000)])
        assert DATA[7:1000] + DATA[-100:] == bytes_of(first, 7, 1000) + bytes_of(first, len(DATA) - 100, len(DATA))
    with closing(StandIn(file_at(web, way, facts=facts), facts)) as again:
        for start, stop in [(200_000, 200_500), (0, 4), (100_000, 300_000), (199_000, 200_000)]:
            again.fetch([(start, stop)])
            assert DATA[start:stop] == bytes_of(again, start, stop)
    assert len(DATA) == facts.num_bytes
    assert {"GET"} == {asked.method for asked in web.asked}


def test_only_what_is_wanted_is_fetched_when_there_are_ranges(web: FileWeb) -> None:
    """The end once, then each range, near ones at once; nothing twice, nothing that is there."""
    with closing(StandIn(file_at(web, "ranged"))) as stand_in:
        stand_in.fetch([(len(DATA) - 8, len(DATA)), (len(DATA) - 65_536, len(DATA))])
        stand_in.fetch([(100, 200), (1_000, 1_100), (150_000, 150_100)])
        stand_in.fetch([(120, 1_050), (150_050, 150_060)])
        stand_in.fetch([(150_050, 150_200)])
        assert 65_536 + 1_000 + 100 + 100 == stand_in.num_bytes
    assert ["bytes=-65536", "bytes=100-1099", "bytes=150000-150099", "bytes=150100-150199"] == [
        asked.fields["range"] for asked in web.asked
    ]
    assert [None, ETAG, ETAG, ETAG] == [asked.fields.get("if-match") for asked in web.asked]


def test_file_is_asked_for_once_when_there_are_no_ranges(web: FileWeb) -> None:
    """A server that sends everything is asked once."""
    with closing(StandIn(file_at(web, "plain"))) as stand_in:
        stand_in.fetch([(0, 10), (5_000, len(DATA))])
    assert 1 == len(web.asked)


def cut_times(times: int, *, at: int | None = None, way: Callable[[bytes, Asked], Reply] = ranged) -> Any:  # noqa: ANN401
    """Break the connection within the first answers, in the middle of each or after so many bytes."""
    left = [times]

    def answer(data: bytes, asked: Asked) -> Reply:
        reply = way(data, asked)
        left[0] -= 1
        reply.cut = None if left[0] < 0 else len(reply.body) // 2 if at is None else at
        return reply

    return answer


@pytest.mark.parametrize("way", [ranged, plain, packed], ids=["ranged", "plain", "packed"])
def test_rest_is_asked_for_when_a_connection_breaks(web: FileWeb, way: Callable[[bytes, Asked], Reply]) -> None:
    """Broken twice: what came is kept where parts can be had, and asked for again where not."""
    web.ways["cut"] = cut_times(2, way=way)
    with closing(StandIn(file_at(web, "cut"))) as stand_in:
        stand_in.fetch([(0, len(DATA))])
        assert DATA == bytes_of(stand_in, 0, len(DATA))
    if way is ranged:
        assert ["bytes=-65536", f"bytes={len(DATA) - 32_768}-{len(DATA) - 1}"] == [
            asked.fields["range"] for asked in web.asked[:2]
        ]


def test_file_is_given_up_when_its_connection_always_breaks(web: FileWeb) -> None:
    """So many attempts and no more, with growing waits; the error says how far they came."""
    web.ways["cut"] = cut_times(1_000)
    slept: list[float] = []
    with pytest.raises(UnreachableError, match=r"cannot be read: .*peer closed connection"):
        StandIn(file_at(web, "cut", sleep=slept.append))
    assert (ATTEMPTS, ATTEMPTS - 1) == (len(web.asked), len(slept))
    assert slept[0] < slept[-1]


def test_long_file_comes_when_its_connection_breaks_again_and_again() -> None:
    """Attempts that bring a megabyte are not counted."""
    data = bytes(12 * ENOUGH_BYTES)
    with FileWeb(data, {"cut": cut_times(9, at=ENOUGH_BYTES + 100_000)}) as web:
        file = file_at(web, "cut", facts=FileFacts(num_bytes=len(data), version=ETAG))
        with closing(StandIn(file, FileFacts(num_bytes=len(data), version=ETAG))) as stand_in:
            stand_in.fetch([(0, len(data))])
            assert len(data) == stand_in.num_bytes
        assert ATTEMPTS < len(web.asked)


def test_rest_is_asked_for_when_parts_are_short(web: FileWeb) -> None:
    """A server may give less than it was asked for."""
    web.ways["short"] = short_parts
    with closing(StandIn(file_at(web, "short"))) as stand_in:
        stand_in.fetch([(0, 100_000)])
        assert DATA[:100_000] == bytes_of(stand_in, 0, 100_000)


def test_server_is_asked_again_when_it_is_busy(web: FileWeb) -> None:
    """A 503 and a 429 pass; the wait is the one that the server asks for."""
    replies = [Reply(status=503), Reply(status=429, fields={"Retry-After": "7"})]
    web.ways["busy"] = lambda data, asked: replies.pop() if replies else ranged(data, asked)
    slept: list[float] = []
    with closing(StandIn(file_at(web, "busy", sleep=slept.append))) as stand_in:
        assert DATA[-10:] == bytes_of(stand_in, len(DATA) - 10, len(DATA))
    assert 7 == slept[0]


REFUSALS: dict[str, tuple[Reply, str]] = {
    "404": (Reply(status=404), "HTTP 404"),
    "403": (Reply(status=403), "HTTP 403"),
    "201": (Reply(status=201), "HTTP 201"),
    "204": (Reply(status=204), "HTTP 204"),
    "a day": (Reply(status=503, fields={"Retry-After": "86400"}), "the server asks to wait 86400 s"),
    "brotli": (Reply(body=b"x", fields={"Content-Encoding": "br"}), "content coding 'br' was not asked for"),
    "false gzip": (Reply(body=b"xyz", fields={"Content-Encoding": "gzip"}), "incorrect header check"),
    "no location": (Reply(status=302), "HTTP 302 leads nowhere: no Location"),
    "local file": (Reply(status=302, fields={"Location": "file:///etc/passwd"}), "file: is not fetched"),
    "loop": (Reply(status=302, fields={"Location": "x"}), "more than 5 redirects"),
    "part": (Reply(status=206, body=b"x", fields={"Content-Range": "bytes 3-3/9"}), "a part of the file that was not"),
    "part of nothing": (Reply(status=416), "HTTP 416"),
    "condition": (Reply(status=412), "HTTP 412"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_file_is_given_up_at_once_when_the_server_refuses(web: FileWeb, refusal: str) -> None:
    """What does not pass is not asked for again and again; the reason is the server's."""
    reply, told = REFUSALS[refusal]
    web.ways["no"] = lambda _, __: reply
    with pytest.raises(UnreachableError, match=told):
        StandIn(file_at(web, "no"))
    assert len(web.asked) <= 6


def test_file_has_no_bytes_when_it_is_empty(web: FileWeb) -> None:
    """An empty file has no last byte to ask for, and is no error here."""
    web.data = b""
    for way in ("ranged", "plain", "packed"):
        with closing(StandIn(file_at(web, way))) as stand_in:
            assert 0 == stand_in.facts.num_bytes


CHANGES: dict[str, tuple[str, Callable[[FileWeb], None]]] = {
    "tag": ("ranged", lambda web: web.ways.update(ranged=lambda d, a: ranged(d, a, etag='"v2"'))),
    "tag of a whole": ("plain", lambda web: web.ways.update(plain=lambda d, a: ranged(d, a, etag='"v2"'))),
    "weak tag": ("weak", lambda web: web.ways.update(weak=lambda d, a: ranged(d, a, etag='W/"v2"'))),
    "date": ("dated", lambda web: web.ways.update(dated=lambda d, a: ranged(d, a, etag="", date=DATE[:-1] + "X"))),
    "longer": ("nameless", lambda web: setattr(web, "data", DATA + b"x")),
    "shorter": ("nameless", lambda web: setattr(web, "data", DATA[:-1])),
    "much shorter": ("nameless", lambda web: setattr(web, "data", DATA[:100])),
    "longer, to its close": ("until-close", lambda web: setattr(web, "data", DATA + b"x")),
    "longer, packed": ("packed", lambda web: setattr(web, "data", DATA + b"x")),
    "gone": ("ranged", lambda web: web.ways.update(ranged=lambda _, __: Reply(status=404))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_file_is_refused_when_it_changed_after_planning(web: FileWeb, change: str) -> None:
    """Another tag, date or length is another file: nothing of it is mixed with the one that was planned."""
    way, do = CHANGES[change]
    with closing(StandIn(file_at(web, way))) as stand_in:
        facts = stand_in.facts
    do(web)
    stand_in = StandIn(file_at(web, way, facts=facts), facts)
    with closing(stand_in), pytest.raises(FileChangedError, match=r"(has changed|is gone) since it was planned"):
        stand_in.fetch([(1_000, 2_000)])


def test_login_is_sent_to_its_own_host_only(web: FileWeb) -> None:
    """The address's host gets it; another that it redirects to does not."""
    other = web.address.replace("127.0.0.1", "localhost")
    web.ways["away"] = lambda _, __: Reply(status=302, fields={"Location": f"{other}/ranged/x"})
    for way in ("redirect", "away"):
        web.asked.clear()
        with closing(StandIn(file_at(web, way, login="me:p%40ss"))):
            expected = ["Basic bWU6cEBzcw==", "Basic bWU6cEBzcw==" if way == "redirect" else None]
            assert expected == [asked.fields.get("authorization") for asked in web.asked]


def test_asker_says_who_it_is_and_asks_for_no_packing(web: FileWeb) -> None:
    """An honest name, no cookie, no coding."""
    web.ways["cookie"] = lambda data, asked: Reply(body=data, fields={"Set-Cookie": "a=b"}) if asked else Reply()
    for _ in range(2):
        StandIn(file_at(web, "cookie")).close()
    for asked in web.asked:
        assert asked.fields["user-agent"].startswith("evenshard/")
        assert "identity" == asked.fields["accept-encoding"]
        assert "cookie" not in asked.fields


def test_file_is_given_up_when_the_server_drips_its_head() -> None:
    """One byte now and then passes every limit on silence; the deadline of the whole head ends it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        done = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                while not done.wait(0.02):
                    try:
                        connection.send(b"H")
                    except OSError:
                        done.set()

        thread = threading.Thread(target=drip)
        thread.start()
        slept: list[float] = []

        def stop(seconds: float) -> None:
            slept.append(seconds)
            raise TimeoutError

        file = HttpFile(f"http://127.0.0.1:{server.getsockname()[1]}/x", sleep=stop, head_seconds=0.3)
        with pytest.raises(TimeoutError):
            StandIn(file)
        assert done.wait(30)
        thread.join()
    assert 1 == len(slept)


def test_nothing_answers_when_there_is_no_server() -> None:
    """A port that nobody listens at, said so."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x"
    with pytest.raises(UnreachableError, match=r"cannot be read: ConnectError.*refused"):
        StandIn(HttpFile(address, sleep=lambda _: None))
