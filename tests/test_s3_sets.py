"""Sets made from S3 and in S3, without an orchestrator: what is fetched, what is refused, and who wins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from evenshard import source_access
from evenshard.adapters.local_store import LocalStore
from evenshard.adapters.s3_settings import reaching_s3
from evenshard.core.errors import BadSourcesError, SourceChangedError, StoreError
from evenshard.core.layout import INDEX, MANIFEST
from evenshard.core.s3_place import S3Settings
from evenshard.generations import read_generation, read_manifest
from evenshard.planning import Request, make_plan
from evenshard.publish import show
from evenshard.slices import RunSettings, make_job, read_slice
from tests.support.memory_store import MemoryStore
from tests.support.rows_set import ROWS, append_rows
from tests.support.s3_proxy import S3Proxy
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY
from tests.support.sets import published_bytes
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evenshard.core.store import Store
    from tests.support.s3_places import S3Place


@pytest.fixture
def proxy(s3_place: S3Place) -> Iterator[S3Proxy]:
    """Stand before the server, and see what is asked."""
    source_access._STAND_INS.close()
    with S3Proxy(s3_place.server.endpoint_url) as proxy, reaching_s3(S3Settings(endpoint_url=proxy.endpoint_url)):
        yield proxy


def ranges_in(proxy: S3Proxy) -> list[tuple[int, int]]:
    """Give the byte ranges [start, stop) that were asked for since the last time, those of ends left out."""
    found = re.findall(rb"\r\n[Rr]ange: bytes=(\d+)-(\d+)\r\n", b"".join(proxy.heads))
    proxy.heads.clear()
    return [(int(start), int(stop) + 1) for start, stop in found]


def test_only_needed_row_groups_are_fetched(s3_place: S3Place, proxy: S3Proxy, tmp_path: Path) -> None:
    """Planning asks for the footer; a slice for the columns that it needs of its own row group, and nothing else."""
    columns = {"row": list(range(40)), "url": ["u"] * 40, "body": [bytes([row]) * 300_000 for row in range(40)]}
    path = write_table(tmp_path / "x.parquet", columns, row_group_size=10, compression="none", use_dictionary=False)
    address, num_bytes = s3_place.put("x.parquet", path.read_bytes()), path.stat().st_size
    plan = make_plan(address, Request(transform="rows", columns=("row", "body"), rows_per_slice=10))
    assert 70_000 > sum(min(stop, num_bytes) - start for start, stop in ranges_in(proxy))
    job = make_job(plan, 2, RunSettings(destination="x"), fingerprint="")
    assert list(range(20, 30)) == read_slice(job).frame["row"].to_list()
    ranges = ranges_in(proxy)
    assert num_bytes / 4 * 1.1 > sum(stop - start for start, stop in ranges) > num_bytes / 4 * 0.9
    assert all(num_bytes * 0.45 < start and stop < num_bytes * 0.8 for start, stop in ranges)


def test_slice_fails_by_name_when_its_object_has_changed(s3_place: S3Place, proxy: S3Proxy, tmp_path: Path) -> None:  # noqa: ARG001 - it forgets
    """An object written anew after planning is another one, even of the same length."""
    path = write_table(tmp_path / "x.parquet", plain_columns(5))
    address = s3_place.put("x.parquet", path.read_bytes())
    plan = make_plan(address, ROWS)
    s3_place.put("x.parquet", path.read_bytes()[::-1])
    source_access._STAND_INS.close()
    job = make_job(plan, 0, RunSettings(destination=str(tmp_path / "set")), fingerprint=plan.fingerprint)
    with pytest.raises(SourceChangedError, match=r"x\.parquet.* has changed since it was planned"):
        read_slice(job)


def test_bad_objects_are_named_at_once(s3_place: S3Place, proxy: S3Proxy, tmp_path: Path) -> None:  # noqa: ARG001 - see above
    """With address and reason, as files of a folder are."""
    s3_place.put("a.parquet", write_table(tmp_path / "a.parquet", plain_columns(2)).read_bytes())
    s3_place.put("b.parquet", b"<html>")
    s3_place.put("c.parquet", b"")
    with pytest.raises(BadSourcesError, match="2 source files cannot be used") as caught:
        make_plan(s3_place.address, ROWS)
    told = [(f"{s3_place.address}/b.parquet", "web page"), (f"{s3_place.address}/c.parquet", "is empty")]
    assert [path for path, _ in told] == [path for path, _ in caught.value.problems]
    assert all(word in problem for (_, word), (_, problem) in zip(told, caught.value.problems, strict=True))


def test_nothing_of_old_objects_is_read_when_appending(s3_place: S3Place, proxy: S3Proxy, tmp_path: Path) -> None:
    """Size and version of those stand in the listing; only the new one is asked for."""
    for number in range(2):
        path = write_table(tmp_path / f"{number}.parquet", plain_columns(3, start=3 * number))
        s3_place.put(f"{number}.parquet", path.read_bytes())
        proxy.heads.clear()
        append_rows(s3_place.address + "/", tmp_path / "set")
    assert not [head for head in proxy.heads if b"/0.parquet" in head]
    source_access._STAND_INS.close()
    s3_place.put("0.parquet", path.read_bytes())
    with pytest.raises(BadSourcesError, match=r"0\.parquet: has changed since samples were made from it"):
        append_rows(s3_place.address + "/", tmp_path / "set")


def test_endpoint_and_style_are_in_no_stored_text(s3_place: S3Place, tmp_path: Path) -> None:
    """They do not change the output, so they stand neither in plan nor in manifest; the secret nowhere."""
    s3_place.put("t/x.parquet", write_table(tmp_path / "x.parquet", plain_columns(4)).read_bytes())
    append_rows(f"{s3_place.address}/t", f"{s3_place.address}/set")
    append_rows(f"{s3_place.address}/t", tmp_path / "set")
    with reaching_s3(S3Settings(endpoint_url=s3_place.server.endpoint_url.replace("127.0.0.1", "localhost"))):
        append_rows(f"{s3_place.address}/t", tmp_path / "again")
    store = s3_place.store()
    texts = {name: store.read(name) for name in store.names()}
    for word in (s3_place.server.endpoint_url.encode(), SECRET_KEY.encode(), ACCESS_KEY.encode()):
        assert not [name for name, text in texts.items() if word in text]
    files = [published_bytes(place) for place in (tmp_path / "set", tmp_path / "again")]
    assert files[0] == files[1]


class HeldUp:
    """A store whose first write of a name is held up while something else is done.

    Args:
        store: the store.
        name: of the object.
        meanwhile: what is done then.
    """

    def __init__(self, store: Store, name: str, meanwhile: Any) -> None:  # noqa: ANN401 - any callable
        self._store, self._name, self._meanwhile = store, name, meanwhile

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the store's own
        return getattr(self._store, name)

    def replace(self, name: str, *given: Any, **more: Any) -> None:  # noqa: ANN401 - the store's own
        """Do the other thing first, once."""
        if name == self._name and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        self._store.replace(name, *given, **more)


@pytest.mark.parametrize("name", [MANIFEST, INDEX])
def test_later_generation_stays_when_an_earlier_publisher_was_held_up(store: Store, name: str, tmp_path: Path) -> None:
    """Held up right before its manifest or its index, it does not write over what another published meanwhile."""
    for number in (1, 2, 3):
        write_table(tmp_path / f"t/{number}.parquet", plain_columns(2, start=number))
        append_rows(tmp_path / "t", tmp_path / "set")
    made = LocalStore(tmp_path / "set")
    first, second, third = (read_generation(made, number) for number in (1, 2, 3))
    show(store, first)
    show(HeldUp(store, name, lambda: show(store, third)), second)
    assert 3 == read_manifest(store).generation
    assert made.read(INDEX) == store.read(INDEX)


def test_publisher_goes_on_when_the_index_was_left_by_another(tmp_path: Path) -> None:
    """A manifest of ours with an index of an earlier state, which another wrote late, is mended by the next look."""
    write_table(tmp_path / "t/1.parquet", plain_columns(2))
    manifest, store = append_rows(tmp_path / "t", tmp_path / "set"), MemoryStore()
    show(HeldUp(store, INDEX, lambda: store.put(INDEX, [b"late"])), manifest)
    assert LocalStore(tmp_path / "set").read(INDEX) == store.read(INDEX)


def test_store_errors_are_no_reason_to_look_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a state that changed is looked at anew; a store that refuses ends the publishing."""
    write_table(tmp_path / "t/1.parquet", plain_columns(2))

    def refuse(*_: Any, **__: Any) -> None:  # noqa: ANN401 - the store's own
        raise StoreError(MANIFEST, "no space left")

    monkeypatch.setattr(LocalStore, "replace", refuse)
    with pytest.raises(StoreError, match="no space left"):
        append_rows(tmp_path / "t", tmp_path / "set")
