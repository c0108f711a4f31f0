"""Tables at addresses: planned, read slice by slice, and refused when they are not what they were."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenshard import source_access
from evenshard.adapters.http_file import HttpFile
from evenshard.clients import Clients
from evenshard.core.errors import BadSourcesError, OptionError, SliceError, SourceChangedError, may_pass
from evenshard.core.recipe import OnBadFile
from evenshard.core.text import to_json
from evenshard.planning import Request, make_plan
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.source_access import logins_of
from evenshard.stores import open_store
from evenshard.worker import SliceWorker
from tests.support.file_web import Asked, FileWeb, Reply, packed, plain, ranged
from tests.support.sets import outcomes_of, read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from evenshard.core.plan import Plan

ROWS = Request(transform="rows", rows_per_slice=4)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no wait between attempts take time."""
    monkeypatch.setattr(source_access, "HttpFile", partial(HttpFile, sleep=lambda _: None))


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    """Write the file of C15: 25 rows in 5 row groups."""
    return write_table(tmp_path / "meta.parquet", plain_columns(25), row_group_size=5).read_bytes()


def cut(data: bytes, asked: Asked, *, times: list[int]) -> Reply:
    """Break the connection in the middle of the first answers."""
    reply, times[0] = ranged(data, asked), times[0] - 1
    reply.cut = len(reply.body) // 2 if times[0] >= 0 else None
    return reply


def signed(_: bytes, asked: Asked) -> Reply:
    """Send on to a signed address."""
    return Reply(status=302, fields={"Location": f"/files/{asked.target.rpartition('/')[2]}?X-Amz-Signature=SECRET"})


@pytest.fixture
def web(data: bytes) -> Iterator[FileWeb]:
    """Serve it in the ways of C15, and some more; no way knows HEAD."""
    ways: dict[str, Callable[[bytes, Asked], Reply]] = {
        "files": ranged,
        "norange": plain,
        "packed": packed,
        "cut-once": partial(cut, times=[1]),
        "cut-always": partial(cut, times=[10_000]),
        "absent": lambda _, __: Reply(status=404),
        "signed": signed,
    }
    with FileWeb(data, ways) as server:
        yield server


def do_all(plan: Plan, folder: Path, **settings: Any) -> None:  # noqa: ANN401 - of a run
    """Do all slices of a plan, and publish."""
    with Clients() as clients:
        worker, given = SliceWorker(clients), RunSettings(destination=str(folder), **settings)
        for index in range(plan.num_slices):
            worker.run(make_job(plan, index, given, fingerprint=plan.fingerprint), lambda _: None)
    publish(plan, open_store(str(folder)))


@pytest.mark.parametrize("way", ["files", "norange", "packed", "cut-once", "signed"])
def test_all_rows_come_when_a_server_has_its_ways(web: FileWeb, tmp_path: Path, way: str) -> None:
    """The public case C15: 25 rows, without HEAD, without ranges, packed, broken once, by a signed redirect."""
    address = f"{web.address}/{way}/meta.parquet"
    plan = make_plan(address, ROWS)
    do_all(plan, tmp_path / "set")
    assert list(range(25)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    assert [(address, row) for row in range(25)] == [
        (row["source"], row["row"]) for row in outcomes_of(tmp_path / "set")
    ]
    assert b"SECRET" not in to_json(plan)
    assert {"GET"} == {asked.method for asked in web.asked}


@pytest.mark.parametrize(
    ("way", "told"), [("cut-always", "peer closed connection"), ("absent", "HTTP 404")], ids=["cut-always", "absent"]
)
@pytest.mark.parametrize("on_bad_file", OnBadFile)
def test_address_is_named_in_full_when_it_gives_no_file(
    web: FileWeb, way: str, told: str, on_bad_file: OnBadFile
) -> None:
    """The public case C15: always broken, or absent; an error with the address, and no reason to skip the file."""
    address = f"{web.address}/{way}/C15/meta.parquet"
    with pytest.raises(BadSourcesError, match=told) as caught:
        make_plan([f"{web.address}/files/a.parquet", address], Request(on_bad_file=on_bad_file))
    assert [address] == [path for path, _ in caught.value.problems]


def test_file_is_left_out_when_what_it_holds_is_bad(web: FileWeb) -> None:
    """A web page at an address is a bad file like any other."""
    web.ways["page"] = lambda _, __: Reply(body=b"<!doctype html><title>Hello</title>")
    addresses = [f"{web.address}/{way}/a.parquet" for way in ("page", "files")]
    plan = make_plan(addresses, Request(on_bad_file=OnBadFile.SKIP))
    assert [(addresses[0], "not a Parquet file but a web page")] == [(each.path, each.reason) for each in plan.left_out]
    assert [addresses[1]] == [source.path for source in plan.sources]


def test_footer_comes_by_few_requests_when_it_is_long(web: FileWeb, tmp_path: Path) -> None:
    """The end, the head, and the rest of the footer: three requests, whatever its length."""
    columns = {f"a rather long name of a column, number {number}": [1] for number in range(3_000)}
    web.data = write_table(tmp_path / "wide.parquet", {**columns, "url": ["x"]}).read_bytes()
    metadata = pq.read_metadata(tmp_path / "wide.parquet")
    assert metadata.serialized_size > 200_000
    make_plan(f"{web.address}/files/wide.parquet", Request())
    assert 3 == len(web.asked)


def test_only_wanted_bytes_are_fetched_when_a_slice_is_read(web: FileWeb, tmp_path: Path) -> None:
    """Of 3 row groups and 3 columns, a slice fetches 1 row group and 2 columns, once for all of its slices."""
    rows = 100_000
    path = tmp_path / "large.parquet"
    table = pa.table(
        {
            "url": [f"http://h.example/{row:08d}.jpg" for row in range(3 * rows)],
            "other": pa.array([row * 0.37 for row in range(3 * rows)], pa.float64()),
            "row": pa.array(range(3 * rows), pa.int64()),
        }
    )
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False)
    web.data, metadata = path.read_bytes(), pq.read_metadata(path)
    request = Request(transform="rows", columns=("url", "row"), rows_per_slice=10_000)
    plan = make_plan(f"{web.address}/files/large.parquet", request)
    source_access._STAND_INS.close()
    web.num_sent_bytes.clear()
    web.asked.clear()
    wanted = sum(metadata.row_group(1).column(index).total_compressed_size for index in (0, 2))
    with Clients() as clients:
        worker, settings = SliceWorker(clients), RunSettings(destination=str(tmp_path / "set"))
        for index in range(10, 20):
            worker.run(make_job(plan, index, settings, fingerprint=plan.fingerprint), lambda _: None)
    (sent,) = web.num_sent_bytes.values()
    assert wanted <= sent <= wanted + 65_536 + 1_000  # the end of the file, in which the footer lies
    assert 3 == len(web.asked)


def test_slice_is_refused_when_its_file_changed_after_planning(web: FileWeb, tmp_path: Path) -> None:
    """Another tag: nothing is read, and it is said what helps, since the same command would not."""
    plan = make_plan(f"{web.address}/files/meta.parquet", ROWS)
    source_access._STAND_INS.close()
    web.ways["files"] = partial(ranged, etag='"v2"')
    told = r"slice 0: http://.*/files/meta\.parquet has changed since it was planned; put it back .* or begin anew"
    with pytest.raises(SourceChangedError, match=told) as caught:
        do_all(plan, tmp_path / "set")
    assert not may_pass(caught.value)


def test_slice_may_be_tried_again_when_its_server_is_down(web: FileWeb, tmp_path: Path) -> None:
    """A server that is busy beyond all attempts fails the slice by the file's name; another try makes sense."""
    plan = make_plan(f"{web.address}/files/meta.parquet", ROWS)
    source_access._STAND_INS.close()
    web.ways["files"] = lambda _, __: Reply(status=503)
    with pytest.raises(SliceError, match=r"slice 0: http://.*/files/meta\.parquet cannot be read: HTTP 503") as caught:
        do_all(plan, tmp_path / "set")
    assert may_pass(caught.value)


def test_login_is_used_and_stands_nowhere(web: FileWeb, tmp_path: Path) -> None:
    """It is sent with each request; plan, outcomes, jobs as text, and errors are without it."""
    login = "Basic bWU6U0VDUkVU"

    def guarded(data: bytes, asked: Asked) -> Reply:
        return ranged(data, asked) if asked.fields.get("authorization") == login else Reply(status=401)

    web.ways["guarded"] = guarded
    address = f"{web.address}/guarded/meta.parquet".replace("http://", "http://me:SECRET@")
    plan = make_plan(address, ROWS)
    source_access._STAND_INS.close()
    do_all(plan, tmp_path / "set", logins=logins_of(address))
    assert 25 == len(read_set(tmp_path / "set"))
    settings = RunSettings(destination="x", logins=logins_of(address))
    assert "SECRET" not in repr(make_job(plan, 0, settings, fingerprint="")) + to_json(plan).decode()
    assert all(b"SECRET" not in path.read_bytes() for path in (tmp_path / "set").rglob("*") if path.is_file())
    with pytest.raises(BadSourcesError, match="HTTP 401") as caught:
        make_plan(address.replace("SECRET", "SECRET2"), ROWS)
    assert "SECRET" not in str(caught.value)


def test_address_is_refused_when_it_is_named_twice(web: FileWeb) -> None:
    """The same file in two spellings would be counted twice."""
    address = f"{web.address}/files/a.parquet?sig=SECRET"
    with pytest.raises(OptionError, match=r"a\.parquet\?sig=\.\.\. is the same file as"):
        make_plan([address, address.replace("/files/", "/x/../files/")], Request())
