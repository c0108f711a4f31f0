"""The flows and the command line on S3: from a bucket into a bucket, with worker processes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.core.layout import INDEX
from evenshard.generations import list_generations
from evenshard.inspection import Depth, verify
from flows.ingest import ingest
from flows.repair import repair
from flows.retry import retry_failed
from tests.support.commands import ended
from tests.support.s3_proxy import S3Proxy
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY
from tests.support.sets import published_bytes, read_set
from tests.support.tables import link_columns, plain_columns, write_table
from tests.support.web import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.s3_places import S3Place, Servers
    from tests.support.web import Web


def put_table(place: S3Place, folder: Path, name: str, columns: dict[str, Any]) -> None:
    """Put a Parquet file into S3."""
    place.put(name, write_table(folder / name, columns, row_group_size=5).read_bytes())


@pytest.fixture
def pictures(s3_place: S3Place, tmp_path: Path, web: Web) -> str:
    """Put a table of 20 links into S3, two of whose pictures are not to be had at first; gives its address."""
    web.answers = {"/3": Answer(status=503), "/7": Answer(status=404)}
    links = [f"{web.address}/{row}" for row in range(20)]
    put_table(s3_place, tmp_path, "t/lang=de/a.parquet", link_columns(links[:9]))
    put_table(s3_place, tmp_path, "t/lang=en/b.parquet", link_columns(links[9:], start=9))
    return f"{s3_place.address}/t"


def test_set_in_s3_has_the_bytes_of_a_local_one(
    pictures: str, s3_place: S3Place, web: Web, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """From a bucket into a bucket and into a folder, on two worker processes: the same bytes; later, all rows."""
    given: dict[str, Any] = {"columns": ["row", "lang"], "rows_per_slice": 4, "attempts": 1, "engine_workers": 2}
    given |= {"endpoint_url": s3_place.server.endpoint_url, "engine": "processes"}
    result = ingest(source=pictures, destination=f"{s3_place.address}/set", **given)
    ingest(source=pictures, destination=str(tmp_path / "set"), **given)
    store = s3_place.below("set").store()
    assert (18, {"http-server-error": 1, "http-status": 1}) == (result["stored"], result["failed"])
    assert published_bytes(tmp_path / "set") == published_bytes(store)

    web.answers = {}
    chunk = next(name for name in store.names() if name.startswith("chunk-"))
    store.put(chunk, [b"damaged"])
    again = {"endpoint_url": s3_place.server.endpoint_url, "engine": "threads", "attempts": 1}
    repair(destination=f"{s3_place.address}/set", **again)
    retry_failed(destination=f"{s3_place.address}/set", **again)
    verify(store, depth=Depth.DEEP)
    assert sorted(set(range(20)) - {7}) == sorted(sample["row"] for sample in read_set(store))
    assert {"de", "en"} == {sample["lang"] for sample in read_set(store)}
    texts = b"".join(store.read(name) for name in store.names()) + "".join(capfd.readouterr()).encode()
    assert not [secret for secret in (ACCESS_KEY, SECRET_KEY) if secret.encode() in texts]


def test_set_grows_and_goes_back_in_s3(
    s3_place: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command on a set in a bucket: with --endpoint-url, and with AWS_ENDPOINT_URL_S3 set."""
    table, dataset, endpoint = (
        f"{s3_place.address}/t/*.parquet",
        f"{s3_place.address}/set",
        s3_place.server.endpoint_url,
    )
    how = ["--transform", "rows", "--mode", "append", "--engine", "threads", "--rows-per-slice", "3"]
    for number in range(2):
        put_table(s3_place, tmp_path, f"t/{number}.parquet", plain_columns(5, start=5 * number))
        assert 0 == ended(["ingest", table, dataset, *how, "--endpoint-url", endpoint])
    assert "10 rows = 10 stored" in " ".join(capsys.readouterr().out.split())
    for command in (["plan", table, "--transform", "rows"], ["verify", dataset, "--deep"], ["outcomes", dataset]):
        assert 0 == ended([*command, "--endpoint-url", endpoint, "--path-style", "true"])

    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    s3_place.put("set/chunk-g0002-s000099-000-aaaaaaaaaaaa.bin", b"left by an attempt that lost")
    assert 0 == ended(["rollback", dataset, "1"])
    assert 0 == ended(["sweep", dataset, "--older-than", "0s"])
    assert "1 objects" in capsys.readouterr().out.splitlines()[-1]
    assert 0 == ended(["history", dataset])
    lines = [line.replace("*", "").split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [["1", "create"], ["2", "append"], ["3", "rollback"]] == [words[:2] for words in lines]
    store = s3_place.below("set").store()
    assert ([1, 2, 3], list(range(5))) == (list_generations(store), [sample["row"] for sample in read_set(store)])
    assert 5 == sum(chunk["chunk_size"] for chunk in json.loads(store.read(INDEX))["chunks"])


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """What is wrong, and what is to be said of it.

    Args:
        address: of the data set; that of a place that is there by default.
        endpoint: of the server; the right one by default.
        environment: what is set.
        told: what the line holds.
        code: what the command ends with.
    """

    address: str = ""
    endpoint: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    told: str
    code: int = 2


WRONG = {
    "no bucket": Wrong(address="s3://nobodys/x", told="destination: s3://nobodys/x: there is no such bucket"),
    "no name": Wrong(address="s3://b", told="'b' is no bucket's name"),
    "login": Wrong(address="s3://KEY:SECRET@bucket/x", told="s3://***@bucket/x holds a login"),
    "secret": Wrong(environment={"AWS_SECRET_ACCESS_KEY": "SECRET"}, told=": the secret key is wrong; check the cred"),
    "profile": Wrong(environment={"AWS_PROFILE": "nobodys"}, told="boto3's settings have no such profile"),
    "nobody there": Wrong(endpoint="http://127.0.0.1:9", told="http://127.0.0.1:9 cannot be connected to: ", code=1),
    "no endpoint": Wrong(endpoint="127.0.0.1:9", told="--endpoint-url: '127.0.0.1:9' is no http(s) address"),
}


@pytest.fixture(params=list(WRONG.values()), ids=list(WRONG))
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, s3_forgotten: None) -> Wrong:  # noqa: ARG001 - it comes first
    """Give each thing that can be wrong, set in the environment."""
    each: Wrong = request.param
    for name, value in each.environment.items():
        monkeypatch.setenv(name, value)
    return each


@pytest.mark.parametrize("command", ["verify", "history"])
def test_one_line_says_what_is_wrong(
    s3_place: S3Place, command: str, wrong: Wrong, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line, without a trace of the program, and without a secret."""
    how = ["--endpoint-url", wrong.endpoint or s3_place.server.endpoint_url]
    assert wrong.code == ended([command, wrong.address or s3_place.address, *how])
    (line,) = capsys.readouterr().err.splitlines()
    assert wrong.told in line
    assert "SECRET" not in line


@pytest.mark.usefixtures("s3_environment")
def test_warning_is_printed_when_the_server_keeps_no_conditions(
    s3_servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the run's own output, naming the endpoint; the set is published all the same."""
    place = s3_servers.place("moto")
    table = write_table(tmp_path / "x.parquet", plain_columns(5))
    with S3Proxy(place.server.endpoint_url, strip=(b"if-none-match", b"if-match")) as proxy:
        command = ["ingest", str(table), place.address, "--transform", "rows", "--engine", "threads"]
        assert 0 == ended([*command, "--endpoint-url", proxy.endpoint_url])
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("evenshard: warning: ")]
    assert [f"evenshard: warning: {proxy.endpoint_url} does not keep If-None-Match and If-Match of conditional "] == [
        line[: line.index("writes;")] for line in told
    ]
    assert 5 == verify(place.store()).counts.stored


def test_source_is_told_of_when_nobody_gives_it(s3_place: S3Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a plan, too: the address and the reason in one line."""
    assert 2 == ended(["plan", f"{s3_place.address}/none", "--endpoint-url", s3_place.server.endpoint_url])
    assert [
        f"evenshard: source: {s3_place.address}/none: there is no such object, and no .parquet object below it"
    ] == (capsys.readouterr().err.splitlines())
