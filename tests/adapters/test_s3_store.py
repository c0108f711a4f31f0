"""The store in S3 where servers and lines misbehave: lost answers, cut uploads, no conditions, other bytes."""

from __future__ import annotations

import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters import s3_client
from evenshard.adapters.s3_client import S3Client
from evenshard.adapters.s3_store import LOCKS, PROBES, S3Store
from evenshard.core.errors import ObjectChangedError, ObjectExistsError, OptionError, StoreError
from evenshard.core.s3_failure import ATTEMPTS
from evenshard.core.s3_place import S3Settings
from tests.support.ceph_server import ceph
from tests.support.s3_places import BUCKET
from tests.support.s3_proxy import Fault, S3Proxy, Script
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.s3_places import S3Place, Servers

PART_BYTES = 5 * 2**20
CONDITIONS = (b"if-none-match", b"if-match")


@pytest.fixture
def proxy(s3_place: S3Place) -> Iterator[S3Proxy]:
    """Stand before the server of the place."""
    with S3Proxy(s3_place.server.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def waits() -> list[float]:
    """Give what is filled with the waits between attempts."""
    return []


@pytest.fixture
def store(s3_place: S3Place, proxy: S3Proxy, waits: list[float]) -> S3Store:
    """Make a store that reaches the server through the proxy, and waits for nothing."""
    return store_through(proxy, s3_place, waits)


def store_through(proxy: S3Proxy, place: S3Place, waits: list[float]) -> S3Store:
    """Make a store that reaches a place through a proxy."""
    settings = S3Settings(endpoint_url=proxy.endpoint_url)
    return S3Store(place.address, settings, client=S3Client(settings, sleep=waits.append), part_bytes=PART_BYTES)


@pytest.mark.parametrize("fault", [Fault.DROP_REPLY, Fault.BROKEN])
def test_new_object_counts_as_ours_when_the_answer_was_lost(store: S3Store, proxy: S3Proxy, fault: Fault) -> None:
    """It was written, the next attempt is refused, and what is there is what we wrote: no error."""
    store.put_new("probe", [b""])
    proxy.faults = Script(b"PUT", b"receipt", fault, fault)
    store.put_new("receipt", [b"ours"])
    assert (b"ours", []) == (store.read("receipt"), proxy.faults.left)


def test_replaced_object_counts_as_ours_when_the_answer_was_lost(store: S3Store, proxy: S3Proxy) -> None:
    """The same for one that replaces a certain state."""
    store.put("manifest", [b"before"])
    store.put_new("probe", [b""])
    proxy.faults = Script(b"PUT", b"manifest", Fault.DROP_REPLY)
    store.replace("manifest", [b"ours"], expected=b"before")
    assert (b"ours", []) == (store.read("manifest"), proxy.faults.left)


def test_object_of_another_does_not_count_as_ours_when_an_attempt_failed(
    store: S3Store, proxy: S3Proxy, s3_place: S3Place
) -> None:
    """An attempt that never arrived leaves doubt, which what is there settles: it is another's."""
    store.put_new("probe", [b""])
    s3_place.put("receipt", b"theirs")
    s3_place.put("manifest", b"theirs")
    proxy.faults = Script(b"PUT", b"receipt", Fault.SLOW_DOWN)
    with pytest.raises(ObjectExistsError):
        store.put_new("receipt", [b"ours"])
    proxy.faults = Script(b"GET", b"manifest", Fault.SLOW_DOWN)
    with pytest.raises(ObjectChangedError):
        store.replace("manifest", [b"ours"], expected=b"before")
    assert (b"theirs", b"theirs") == (store.read("receipt"), store.read("manifest"))


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CUT_UPLOAD, Fault.DROP_REPLY])
@pytest.mark.parametrize("num_bytes", [1000, PART_BYTES + 1], ids=["at once", "in parts"])
def test_object_is_whole_when_each_request_fails_at_first(
    store: S3Store, proxy: S3Proxy, s3_place: S3Place, fault: Fault, num_bytes: int
) -> None:
    """Every second request fails; the object is there as it was sent, and comes back so."""
    data = bytes(range(256)) * (num_bytes // 256 + 1)
    turn = [False]

    def every_second(_: bytes) -> Fault | None:
        turn[0] = not turn[0]
        return fault if turn[0] else None

    proxy.faults = every_second
    store.put("chunk", [data])
    assert data == store.read("chunk")
    proxy.faults = lambda _: None
    store.delete_unfinished(before=time.time() + 60)
    assert [] == s3_place.uploads()


def test_store_gives_up_when_the_server_stays_busy(store: S3Store, proxy: S3Proxy, waits: list[float]) -> None:
    """After a bounded number of attempts with growing waits, an error names object, place and what was said."""
    proxy.faults = lambda _: Fault.SLOW_DOWN
    with pytest.raises(StoreError, match=r"^x: cannot be written in s3://.*: the server said SlowDown \(HTTP 503\)$"):
        store.put("x", [b"1"])
    assert (ATTEMPTS, ATTEMPTS - 1) == (len(proxy.heads), len(waits))
    assert waits[0] < 1 < waits[-1]


def test_upload_is_given_up_when_a_part_is_refused(store: S3Store, proxy: S3Proxy, s3_place: S3Place) -> None:
    """A part that cannot be sent ends it; nothing unfinished is left behind, and no object."""
    proxy.faults = Script(b"PUT", b"partNumber=2", *[Fault.SLOW_DOWN] * ATTEMPTS)
    with pytest.raises(StoreError, match="SlowDown"):
        store.put("chunk", [b"x" * (PART_BYTES + 1)])
    assert ([], []) == (s3_place.uploads(), s3_place.names())


def test_old_uploads_are_swept_when_their_writer_died(store: S3Store, s3_place: S3Place) -> None:
    """Uploads begun before a time are given up, those begun later stay; so do others' in the same bucket."""
    other = {"Bucket": BUCKET, "Key": f"{s3_place.prefix}-other/x"}
    begun = s3_place.client.create_multipart_upload(**other)
    s3_place.client.create_multipart_upload(Bucket=BUCKET, Key=f"{s3_place.prefix}/a/chunk")
    assert 0 == store.delete_unfinished(before=time.time() - 60)
    assert 1 == store.delete_unfinished(before=time.time() + 60)
    assert [other["Key"]] == s3_place.uploads()
    s3_place.client.abort_multipart_upload(**other, UploadId=begun["UploadId"])


@pytest.mark.usefixtures("s3_environment")
@pytest.mark.parametrize("num_bytes", [1000, PART_BYTES + 1], ids=["at once", "in parts"])
def test_write_fails_when_the_store_has_other_bytes(s3_servers: Servers, num_bytes: int) -> None:
    """A server like moto takes a body that does not fit its Content-MD5; what it has then is found out."""
    place = s3_servers.place("moto")
    with (
        S3Proxy(place.server.endpoint_url, alter=lambda body: body[:-1] + b"!" if b"xxx" in body else body) as proxy,
        pytest.raises(StoreError, match="the store holds other bytes than were sent"),
    ):
        store_through(proxy, place, []).put("chunk", [b"x" * num_bytes])


@pytest.mark.parametrize("encryption", [None, "aws:kms"])
def test_what_was_sent_is_read_back_when_the_store_tells_no_checksum(
    s3_place: S3Place, monkeypatch: pytest.MonkeyPatch, encryption: str | None
) -> None:
    """An ETag that is no MD5 proves nothing either way: the bytes themselves are compared, and found good or bad."""
    find = S3Client.find
    given = {} if encryption is None else {"ServerSideEncryption": encryption, "ChecksumCRC32": "AAAAAA=="}

    def find_encrypted(self: S3Client, place: Any) -> Any:  # noqa: ANN401 - as there
        found = find(self, place)
        return None if found is None else found | {"ETag": '"0123"', **given}

    monkeypatch.setattr(S3Client, "find", find_encrypted)
    store = s3_place.store(part_bytes=PART_BYTES)
    store.put("a", [b"1", b"2" * 100])
    store.put("b", [b"3" * (PART_BYTES + 1)])
    monkeypatch.setattr(
        S3Client, "read", lambda *_, **__: s3_client.Stretch(data=b"?", start=0, total_bytes=1, etag="")
    )
    with pytest.raises(StoreError, match="the store holds other bytes"):
        store.put("a", [b"1"])


def test_listing_is_whole_when_it_comes_by_pages(s3_place: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of three keys: all names, once, in order."""
    monkeypatch.setattr(s3_client, "PAGE_KEYS", 3)
    names = [f"{number:02}" for number in range(10)]
    for name in names:
        s3_place.put(name, b"")
    assert names == s3_place.store().names()


def test_own_objects_are_not_listed(store: S3Store, s3_place: S3Place) -> None:
    """What the store needs for itself is none of the data set, and old leavings of it are swept."""
    for name in (f"{PROBES}1", f"{LOCKS}2/3"):
        s3_place.put(name, b"")
    store.put_new("x", [b""])
    assert ["x"] == store.names()
    store.delete_unfinished(before=time.time() + 60)
    assert ["x"] == s3_place.names()


@pytest.mark.usefixtures("s3_environment")
class TestWithoutConditions:
    """A server that does not look at conditions of writes: moto, whose proxy keeps them from it."""

    @pytest.fixture
    def store(self, s3_servers: Servers) -> Iterator[S3Store]:
        """Make a store there."""
        place = s3_servers.place("moto")
        with S3Proxy(place.server.endpoint_url, strip=CONDITIONS) as proxy:
            yield store_through(proxy, place, [])

    def test_warning_names_server_and_lock(self, store: S3Store, caplog: pytest.LogCaptureFixture) -> None:
        """It is found out by trying, once, and said clearly."""
        with caplog.at_level(logging.WARNING, logger="evenshard"):
            store.put_new("a", [b""])
            store.put_new("b", [b""])
        (message,) = [each.getMessage() for each in caplog.records]
        assert message.startswith("http://127.0.0.1:")
        assert "does not keep If-None-Match and If-Match of conditional writes" in message
        assert "take a lock object instead" in message

    @pytest.mark.parametrize("expected", [None, b"before"], ids=["new", "replaced"])
    def test_one_writer_wins(self, store: S3Store, expected: bytes | None) -> None:
        """Of 6 threads at once one is told that it wrote, and its bytes are there; no ticket is left."""
        won: list[int] = []
        if expected is not None:
            store.put("x", [expected])

        def write(number: int) -> None:
            try:
                store.replace("x", [bytes([number])], expected=expected)
            except ObjectChangedError:
                return
            won.append(number)

        threads = [threading.Thread(target=partial(write, number)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 1 == len(won)
        assert bytes(won) == store.read("x")
        assert 0 == len(list(store._client.list(store._bucket, store._prefix + LOCKS)))


@pytest.mark.ceph
@pytest.mark.usefixtures("s3_environment")
def test_all_is_written_when_a_gateway_says_slow_down(tmp_path: Path) -> None:
    """A real one that takes two requests at once, and twelve writers: they are slowed down, and all ends well."""
    slowed: list[float] = []

    def wait(seconds: float) -> None:
        slowed.append(seconds)
        time.sleep(seconds / 10)

    with ceph(tmp_path, max_requests=2) as server:
        server.client().create_bucket(Bucket=BUCKET)
        settings = S3Settings(endpoint_url=server.endpoint_url)
        store = S3Store(f"s3://{BUCKET}/x", settings, client=S3Client(settings, sleep=wait))
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda number: store.put_new(f"{number:03}", [b"x" * 1000]), range(120)))
        assert [f"{number:03}" for number in range(120)] == store.names()
    assert len(slowed) > 10


@pytest.mark.usefixtures("s3_forgotten")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "WRONG-SECRET"}, "the secret key is wrong; check the credentials"),
        ({"AWS_ACCESS_KEY_ID": "WRONG-KEY"}, "the access key is not known there; check the credentials"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials were found; set AWS_ACCESS_KEY_ID"),
    ],
    ids=["secret", "key", "none"],
)
def test_bucket_is_refused_when_credentials_are_wrong(
    s3_place: S3Place,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    told: str,
) -> None:
    """One line that says which part is wrong, and holds neither key nor secret."""
    for name, value in given.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(OptionError, match=told) as caught:
        s3_place.store(client=S3Client(s3_place.settings)).check()
    text = f"{caught.value} {caught.value.__cause__}"
    assert not [secret for secret in (ACCESS_KEY, SECRET_KEY, "WRONG") if secret in text]


@pytest.mark.usefixtures("s3_environment")
def test_session_is_told_of_when_its_token_has_expired() -> None:
    """The server's own sentence, which may hold what was sent, is not repeated."""
    said = f"<Error><Code>ExpiredToken</Code><Message>{SECRET_KEY} has expired</Message></Error>"
    with Web(lambda _: Answer(status=400, body=said.encode())) as web:
        settings = S3Settings(endpoint_url=web.address)
        with pytest.raises(OptionError, match=r"^destination: s3://bucket: the session token has expired") as caught:
            S3Store("s3://bucket", settings, client=S3Client(settings)).check()
    assert SECRET_KEY not in str(caught.value)


@pytest.mark.usefixtures("s3_environment")
def test_server_is_told_of_at_once_when_it_is_not_there(waits: list[float]) -> None:
    """Two attempts, and an error that names the endpoint."""
    settings = S3Settings(endpoint_url="http://127.0.0.1:9")
    store = S3Store("s3://bucket", settings, client=S3Client(settings, sleep=waits.append))
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9 cannot be connected to: .*refused"):
        store.check()
    assert 1 == len(waits)


@pytest.mark.usefixtures("s3_environment")
def test_server_is_told_of_when_it_says_nothing(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:
    """One that takes connections and never answers is asked twice, as one that is not there."""
    monkeypatch.setattr(s3_client, "SILENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = S3Settings(endpoint_url=f"http://127.0.0.1:{server.getsockname()[1]}")
        store = S3Store("s3://bucket", settings, client=S3Client(settings, sleep=waits.append))
        with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:\d+ gave no answer in time"):
            store.check()
    assert 1 == len(waits)


@pytest.mark.usefixtures("s3_environment")
def test_server_is_told_of_when_it_is_none_of_s3() -> None:
    """A web server that knows no such page."""
    with Web(lambda _: Answer(status=404, body=b"<!doctype html><title>Nothing here</title>", kind="text/html")) as web:
        settings = S3Settings(endpoint_url=web.address)
        with pytest.raises(OptionError, match="does not answer as an S3 server does"):
            S3Store("s3://bucket", settings, client=S3Client(settings)).check()


def test_bucket_is_told_of_when_there_is_none(s3_place: S3Place) -> None:
    """Of another name on the same server."""
    with pytest.raises(OptionError, match=r"^destination: s3://nobodys/x: there is no such bucket$"):
        S3Store("s3://nobodys/x", s3_place.settings).check()
