"""The flow `ingest`: equal, exact, repeatable, and never a quiet success."""

from __future__ import annotations

import io
import json
import socket
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import (
    BadSourcesError,
    DestinationError,
    TooManyFailuresError,
    UnfinishedError,
    VerificationError,
)
from evenshard.core.layout import RECEIPTS
from evenshard.inspection import verify
from flows import ingest as ingest_module
from flows.ingest import ingest
from tests.support.file_web import Asked, FileWeb, Reply, ranged
from tests.support.pictures import jpeg
from tests.support.sets import outcomes_of, published_bytes, read_set
from tests.support.tables import (
    flipped,
    link_columns,
    plain_columns,
    write_broken_files,
    write_damaged_page,
    write_empty_among_full,
    write_mixed_schemas,
    write_table,
    write_tiny_row_groups,
)
from tests.support.web import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.web import Web

ENGINES = ("threads", "processes")


def run(source: Path, destination: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the flow's own
    """Run the flow with captions and two workers at once."""
    given = {"caption_column": "caption", "engine": "threads", "engine_workers": 2, **options}
    result: dict[str, Any] = ingest(source=str(source), destination=str(destination), **given)
    return result


def adds_up(result: dict[str, Any]) -> bool:
    """Say whether planned rows are the stored, filtered and failed ones."""
    ended = result["stored"] + sum(result["filtered"].values()) + sum(result["failed"].values())
    return bool(result["planned"] == ended)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_row_is_stored_in_order_when_all_links_work(web: Web, tmp_path: Path, engine: str) -> None:
    """Samples are in row order over files and slices, with equal captions and pictures of the size asked for."""
    for part, (start, count) in enumerate([(0, 5), (5, 0), (5, 18)]):
        write_table(tmp_path / f"t/part-{part}.parquet", plain_columns(count, start=start, address=web.address))
    options = {"columns": ["row"], "image_size": 32, "rows_per_slice": 4, "workers_per_node": 3}
    result = run(tmp_path / "t", tmp_path / "set", engine=engine, **options)

    samples = read_set(tmp_path / "set")
    assert list(range(23)) == [sample["row"] for sample in samples]
    assert [f"Bild Nº {row} 図" for row in range(23)] == [sample["caption"] for sample in samples]
    assert {(32, 32)} == {Image.open(io.BytesIO(sample["image"])).size for sample in samples}
    assert ([7, 8, 8], 23, 23) == (result["rows_per_rank"], result["planned"], result["stored"])
    assert verify(LocalStore(tmp_path / "set")).counts.stored == 23


def test_every_row_has_an_outcome_when_links_fail(web: Web, tmp_path: Path) -> None:
    """Each failure names file, row, link and reason; counts add up; stored rows know their place."""
    web.answers = {
        "/gone.jpg": Answer(status=404),
        "/empty.jpg": Answer(),
        "/page.jpg": Answer(body=b"<!doctype html><title>Hello</title>"),
        "/busy.jpg": Answer(body=jpeg(), busy=1),
        "/slow.jpg": Answer(body=jpeg(), seconds=2.0),
        "/half.jpg": Answer(body=jpeg()[:2000]),
    }
    links = [f"{web.address}{path}" for path in (*web.answers, "/ok.jpg")]
    source = write_table(tmp_path / "a.parquet", link_columns(links))
    result = run(source, tmp_path / "set", timeout=0.5, attempts=2)

    reasons = ["http-status", "empty-body", "not-a-picture", None, "too-slow", "broken-picture", None]
    rows = outcomes_of(tmp_path / "set")
    assert reasons == [row["reason"] for row in rows]
    assert [(str(source), number, link) for number, link in enumerate(links)] == [
        (row["source"], row["row"], row["url"]) for row in rows
    ]
    assert [404, 200, 200, 200, None, 200, 200] == [row["http_status"] for row in rows]
    assert [(0, 0), (0, 1)] == [(row["chunk"], row["position"]) for row in rows if row["status"] == "stored"]
    assert adds_up(result)
    assert (7, 2) == (result["planned"], result["stored"])


def test_bytes_are_the_same_when_run_on_any_engine_at_any_concurrency(web: Web, tmp_path: Path) -> None:
    """Threads and processes, one request at a time or 32: chunks, manifest and index are the same bytes."""
    web.answers = {"/3.jpg": Answer(status=404), "/9.jpg": Answer(body=jpeg(), busy=1)}
    sizes = {f"/{number}.jpg": Answer(body=jpeg(60 + number, 200 - number)) for number in range(30)}
    web.answers = {**sizes, **web.answers}
    links = [f"{web.address}/{number}.jpg" for number in range(30)]
    write_table(tmp_path / "t/b.parquet", link_columns(links[:11]))
    write_table(tmp_path / "t/c.parquet", link_columns(links[11:], start=11))
    runs = [("threads", 1, 1), ("threads", 32, 3), ("processes", 1, 2), ("processes", 32, 1)]
    sets = []
    for number, (engine, concurrency, engine_workers) in enumerate(runs):
        options = {"engine": engine, "concurrency": concurrency, "engine_workers": engine_workers}
        run(tmp_path / "t", tmp_path / f"set{number}", rows_per_slice=4, chunk_bytes="20kB", **options)
        web.asked.clear()
        sets.append(published_bytes(tmp_path / f"set{number}"))
    assert len(sets[0]) > 10
    assert all(sets[0] == other for other in sets[1:])


def test_both_files_arrive_when_they_share_a_base_name(web: Web, tmp_path: Path) -> None:
    """Two files with one base name in different folders give all their rows."""
    write_table(tmp_path / "t/x/part.parquet", plain_columns(3, address=web.address))
    write_table(tmp_path / "t/y/part.parquet", plain_columns(4, start=3, address=web.address))
    run(tmp_path / "t", tmp_path / "set", columns=["row"])
    assert list(range(7)) == [sample["row"] for sample in read_set(tmp_path / "set")]


def test_seven_rows_are_stored_when_most_files_are_empty(web: Web, tmp_path: Path) -> None:
    """The public case C01: 3 nodes x 4 workers; five ranks have nothing to do, and no empty chunk is written."""
    folder = write_empty_among_full(tmp_path / "meta", address=web.address)
    result = run(folder, tmp_path / "set", nodes=3, workers_per_node=4, columns=["row"])
    assert list(range(7)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    assert (7, 7, 5) == (result["slices"], result["chunks"], result["rows_per_rank"].count(0))


def test_set_is_empty_when_the_table_is(tmp_path: Path) -> None:
    """A table without rows ends well, with no sample."""
    source = write_table(tmp_path / "t/empty.parquet", plain_columns(0))
    result = run(source, tmp_path / "set")
    assert (0, 0, 0) == (result["planned"], result["stored"], result["chunks"])
    assert [] == json.loads((tmp_path / "set/index.json").read_text())["chunks"]


@pytest.mark.parametrize(("nodes", "workers"), [(3, 4), (1, 1), (1, 7), (5, 2)], ids=["3x4", "1x1", "1x7", "5x2"])
def test_each_row_comes_once_when_row_groups_are_tiny(tmp_path: Path, nodes: int, workers: int) -> None:
    """The public case C02: 1,022 rows in 282 row groups, over several worlds; a row's number is its own."""
    folder = write_tiny_row_groups(tmp_path / "meta")
    options = {"nodes": nodes, "workers_per_node": workers, "transform": "rows", "caption_column": None}
    run(folder, tmp_path / "set", **options)
    assert list(range(1022)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    numbers = [
        row["row"] + (1009 if row["source"].endswith("part-1.parquet") else 0) for row in outcomes_of(tmp_path / "set")
    ]
    assert list(range(1022)) == numbers


def test_files_are_named_before_any_request_when_a_column_is_missing(web: Web, tmp_path: Path) -> None:
    """The public case C04: the file without links and the one with upper-case names, in one error."""
    folder = write_mixed_schemas(tmp_path / "meta", address=web.address)
    with pytest.raises(BadSourcesError) as caught:
        run(folder, tmp_path / "set")
    named = [Path(path).name for path, _ in caught.value.problems]
    assert ["part-5-upper-case.parquet", "part-6-no-url.parquet"] == named
    assert "did you mean 'URL'?" in str(caught.value)
    assert not web.asked
    assert not (tmp_path / "set").exists()


def test_types_widen_and_captions_are_empty_when_files_differ(web: Web, tmp_path: Path) -> None:
    """C04 without the two bad files: 15 samples; 640 x 480 are not swapped; a missing caption is the empty text."""
    folder = write_mixed_schemas(tmp_path / "meta", address=web.address)
    for name in ("part-5-upper-case", "part-6-no-url"):
        (folder / f"{name}.parquet").unlink()
    run(folder, tmp_path / "set", columns=["row", "width", "height"])
    samples = read_set(tmp_path / "set")
    assert list(range(15)) == [sample["row"] for sample in samples]
    assert {(640, 480.0)} == {(sample["width"], sample["height"]) for sample in samples[6:9]}
    assert [""] * 6 == [sample["caption"] for sample in samples[9:]]


def test_seven_files_are_named_before_any_request_when_they_are_broken(web: Web, tmp_path: Path) -> None:
    """The public case C08: all bad files at once; nothing is written."""
    folder = write_broken_files(tmp_path / "meta", address=web.address)
    with pytest.raises(BadSourcesError) as caught:
        run(folder, tmp_path / "set")
    assert list("bcdefgh") == [Path(path).name[0] for path, _ in caught.value.problems]
    assert (not web.asked, not (tmp_path / "set").exists()) == (True, True)


def test_good_rows_are_stored_when_bad_files_are_skipped(web: Web, tmp_path: Path) -> None:
    """C08, skipping: 6 + 20 rows are stored, 20 fail unasked, 7 files are recorded; on any engine the same bytes."""
    folder = write_broken_files(tmp_path / "meta", address=web.address)
    for engine in ENGINES:
        result = run(folder, tmp_path / engine, on_bad_file="skip", rows_per_slice=10, engine=engine)
        assert (46, 26, {"unreadable-rows": 20}) == (result["planned"], result["stored"], result["failed"])
        assert list("bcdefgh") == [Path(path).name[0] for path in result["left_out"]]
        assert adds_up(result)
    assert (26, {2}) == (len(web.asked), set(web.asked.values()))
    assert published_bytes(tmp_path / "threads") == published_bytes(tmp_path / "processes")
    assert 7 == len(verify(LocalStore(tmp_path / "threads")).left_out)


def test_run_fails_with_file_and_rows_when_a_page_is_damaged(web: Web, tmp_path: Path) -> None:
    """C08's eighth file: its second row group cannot be read; the run fails, names them, publishes nothing."""
    source = write_damaged_page(tmp_path / "i-bad-page.parquet", address=web.address)
    with pytest.raises(UnfinishedError, match=r"i-bad-page\.parquet, rows 20 to 29") as caught:
        run(source, tmp_path / "set", rows_per_slice=10)
    assert [2, 3] == [index for index, _ in caught.value.problems]
    assert not (tmp_path / "set/index.json").exists()
    assert not (tmp_path / "set/manifest.json").exists()


def test_table_is_read_from_an_address_when_workers_are_processes(tmp_path: Path) -> None:
    """C15 through the whole flow: 25 rows in order, the login known to each worker, and to nobody who looks."""
    data = write_table(tmp_path / "meta.parquet", plain_columns(25), row_group_size=5).read_bytes()

    def guarded(whole: bytes, asked: Asked) -> Reply:
        return ranged(whole, asked) if "authorization" in asked.fields else Reply(status=401)

    with FileWeb(data, {"files": guarded}) as server:
        address = f"{server.address}/files/meta.parquet".replace("http://", "http://me:SECRET@")
        given = {"transform": "rows", "engine": "processes", "engine_workers": 2, "rows_per_slice": 5}
        result = ingest(source=address, destination=str(tmp_path / "set"), **given)
    assert (25, {}) == (result["stored"], result["left_out"])
    assert list(range(25)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    assert all(b"SECRET" not in path.read_bytes() for path in (tmp_path / "set").rglob("*") if path.is_file())


def damaged(folder: Path, damage: Callable[[Path], object]) -> None:
    """Damage the second chunk of a set."""
    damage(sorted(folder.glob("chunk-*"))[1])


def _other_count(path: Path) -> None:
    """Give a chunk one sample less, and its receipt the new length and checksum, as a broken writer would."""
    from evenshard.adapters.litdata import hash_parts, pack_chunk, read_offsets  # noqa: PLC0415

    data = path.read_bytes()
    offsets = read_offsets(data, num_bytes=len(data))
    samples = [data[a:b] for a, b in pairwise(offsets)][:-1]
    parts = pack_chunk(samples)
    path.write_bytes(b"".join(parts))
    num_bytes, sha256 = hash_parts(parts)
    for receipt in (path.parent / RECEIPTS).rglob("*.json"):
        text = json.loads(receipt.read_text())
        for chunk in text["chunks"]:
            if chunk["name"] == path.name:
                chunk.update(num_bytes=num_bytes, sha256=sha256)
        receipt.write_text(json.dumps(text))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "is missing"),
    "short": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes instead of"),
    "one bit": (lambda path: path.write_bytes(flip_bit(path.read_bytes())), "is altered"),
    "other count": (_other_count, "samples instead of"),
}


def flip_bit(data: bytes) -> bytes:
    """Alter the last bit of the middle byte."""
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_is_published_when_a_chunk_is_not_as_signed(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A chunk missing, short, altered by a bit, or with another count: the flow fails and names slice and chunk."""
    source = write_table(tmp_path / "a.parquet", plain_columns(6, address=web.address))
    original, (do_damage, told) = ingest_module.run_slices, DAMAGES[damage]

    def run_and_damage(*args: Any, **kwargs: Any) -> dict[int, str]:  # noqa: ANN401
        errors = original(*args, **kwargs)
        damaged(tmp_path / "set", do_damage)
        return errors

    monkeypatch.setattr(ingest_module, "run_slices", run_and_damage)
    with pytest.raises(VerificationError, match=rf"slice 1: chunk chunk-g0001-s000001-000-\w+\.bin .*{told}"):
        run(source, tmp_path / "set", rows_per_slice=2)
    assert not (tmp_path / "set/index.json").exists()
    assert not (tmp_path / "set/manifest.json").exists()


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_names_slice_and_chunk_when_a_published_one_is_damaged(web: Web, tmp_path: Path, damage: str) -> None:
    """The same faults, after publishing: `verify` finds them."""
    source = write_table(tmp_path / "a.parquet", plain_columns(6, address=web.address))
    run(source, tmp_path / "set", rows_per_slice=2)
    do_damage, told = DAMAGES[damage]
    damaged(tmp_path / "set", do_damage)
    with pytest.raises(VerificationError, match=rf"slice 1: .*({told}|differ)"):
        verify(LocalStore(tmp_path / "set"))


def test_flow_is_failed_when_a_slice_is(web: Web, tmp_path: Path) -> None:
    """A failed slice makes the flow run Failed, not Completed with nothing in it."""
    source = write_damaged_page(tmp_path / "a.parquet", address=web.address)
    given = {"source": str(source), "destination": str(tmp_path / "set"), "engine": "threads"}
    state: Any = ingest(**given, return_state=True)
    assert state.is_failed()
    assert "slices are not finished" in str(state.message)


def test_nothing_is_published_when_too_many_rows_failed(web: Web, tmp_path: Path) -> None:
    """`max_failure_rate` is a promise: with more failures the run fails, and says what failed."""
    web.answers = {"/gone.jpg": Answer(status=404)}
    links = [f"{web.address}/gone.jpg"] * 3 + [f"{web.address}/ok.jpg"]
    source = write_table(tmp_path / "a.parquet", link_columns(links))
    with pytest.raises(TooManyFailuresError, match=r"3 of 4 rows failed \(75.0%\).*3 x http-status"):
        run(source, tmp_path / "set", max_failure_rate=0.5)
    assert not (tmp_path / "set/index.json").exists()
    assert run(source, tmp_path / "set", max_failure_rate=0.75)["stored"] == 1


def test_finished_slices_are_passed_over_when_run_again(web: Web, tmp_path: Path) -> None:
    """A run that stopped before publishing goes on where it was, without asking the web twice."""
    web.answers = {"/bad.jpg": Answer(status=404)}
    links = [f"{web.address}/{number}.jpg" for number in range(8)] + [f"{web.address}/bad.jpg"]
    source = write_table(tmp_path / "a.parquet", link_columns(links))
    with pytest.raises(TooManyFailuresError):
        run(source, tmp_path / "set", rows_per_slice=3, max_failure_rate=0.0)
    web.asked.clear()
    (tmp_path / "set" / RECEIPTS / "g0001/s000001.json").unlink()
    assert run(source, tmp_path / "set", rows_per_slice=3)["stored"] == 8
    assert {"/3.jpg", "/4.jpg", "/5.jpg"} == set(web.asked)


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda folder: (folder / "notes.txt").write_text("mine"), "not evenshard's.*notes.txt"),
        (lambda folder: (folder / "index.json").write_text('{"chunks": ['), "index.json.*no finished data set"),
    ],
    ids=["foreign file", "left-behind index"],
)
def test_destination_is_refused_when_it_holds_something_else(
    web: Web, tmp_path: Path, prepare: Callable[[Path], Any], told: str
) -> None:
    """Foreign files are named and left alone, and nothing is asked of the web."""
    source = write_table(tmp_path / "a.parquet", plain_columns(2, address=web.address))
    (tmp_path / "set").mkdir()
    prepare(tmp_path / "set")
    before = {path: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    with pytest.raises(DestinationError, match=told):
        run(source, tmp_path / "set")
    assert before == {path: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    assert not web.asked


def test_destination_is_refused_when_it_holds_another_plan(web: Web, tmp_path: Path) -> None:
    """Unfinished work of another plan is never mixed in; both fingerprints and what differs are named."""
    source = write_table(tmp_path / "a.parquet", plain_columns(4, address=web.address))
    web.answers = {"/ok.jpg": Answer(status=404)}
    with pytest.raises(TooManyFailuresError):
        run(source, tmp_path / "set", rows_per_slice=2, max_failure_rate=0.1)
    with pytest.raises(
        DestinationError, match=r"plan \w{12}, this one is \w{12}; they differ in rows_per_slice: 2 -> 3"
    ):
        run(source, tmp_path / "set", rows_per_slice=3)


def test_destination_is_refused_when_it_is_published(web: Web, tmp_path: Path) -> None:
    """A published set is not written over; the very same plan again finds all done, and asks for nothing."""
    source = write_table(tmp_path / "a.parquet", plain_columns(2, address=web.address))
    first = run(source, tmp_path / "set")
    web.asked.clear()
    assert (first, 0) == (run(source, tmp_path / "set"), web.asked.total())
    with pytest.raises(DestinationError, match="already holds a published data set"):
        run(source, tmp_path / "set", rows_per_slice=1)


def test_slice_fails_when_its_file_changed_after_planning(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is not the planned one any more fails its slices by name."""
    source = write_table(tmp_path / "a.parquet", plain_columns(4, address=web.address))
    original = ingest_module.run_slices

    def change_and_run(*args: Any, **kwargs: Any) -> dict[int, str]:  # noqa: ANN401
        source.write_bytes(flipped(source.read_bytes(), 8))
        return original(*args, **kwargs)

    monkeypatch.setattr(ingest_module, "run_slices", change_and_run)
    with pytest.raises(UnfinishedError, match=r"a\.parquet has changed since it was planned"):
        run(source, tmp_path / "set")


def test_run_stops_early_when_most_first_rows_fail(web: Web, tmp_path: Path) -> None:
    """With a limit, the first rows stop the run long before the table's end, naming reasons and hosts."""
    web.answer = lambda _: Answer(status=404)
    source = write_table(tmp_path / "a.parquet", plain_columns(6_000, address=web.address))
    with pytest.raises(TooManyFailuresError, match=r"too many rows fail: .* http-status .*; most at 127\.0\.0\.1 \("):
        run(source, tmp_path / "set", max_failure_rate=0.5, rows_per_slice=1000)
    assert web.asked.total() < 4_000
    assert not (tmp_path / "set/manifest.json").exists()


def test_resolver_is_named_when_names_do_not_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without name servers is told as that, early."""

    def resolve_nothing(host: str, *rest: Any, **options: Any) -> Any:  # noqa: ANN401 - of the function replaced
        if str(host).endswith(".example"):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return genuine(host, *rest, **options)

    genuine = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", resolve_nothing)
    links = [f"http://{row}.example/x.jpg" for row in range(300)]
    source = write_table(tmp_path / "a.parquet", link_columns(links))
    with pytest.raises(TooManyFailuresError, match=r"name-not-resolved .* look at this machine's name servers first"):
        run(source, tmp_path / "set", max_failure_rate=0.5, attempts=1)


def test_inside_address_is_refused_when_nobody_opened_it(web: Web, tmp_path: Path) -> None:
    """A stranger's table that names this machine: each row is a refusal by name, and the server is not asked."""
    source = write_table(tmp_path / "a.parquet", plain_columns(3, address=web.address))
    result = run(source, tmp_path / "set", allow_hosts=[])
    assert (3, {"address-refused": 3}, 0) == (result["planned"], result["failed"], web.asked.total())
