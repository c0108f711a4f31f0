"""Objects in S3 as sources: which ones are meant, and which of their bytes are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evenshard.adapters.ranged import FileChangedError, FileFacts, UnreachableError
from evenshard.adapters.s3_file import S3File
from evenshard.adapters.s3_settings import reaching_s3
from evenshard.adapters.source_files import find_files
from evenshard.core.errors import OptionError
from evenshard.core.s3_place import S3Settings
from tests.support.s3_proxy import Fault, S3Proxy, Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.s3_places import S3Place

NAMES = (
    "a.parquet", "b.PARQUET", "notes.txt", "lang=de/x.parquet", "lang=en/y.parquet", "_tmp/z.parquet", ".h/z.parquet",
    "_SUCCESS", "d/.hidden.parquet", "d/deep/er/1.parquet", "d/a.parquet.crc", "a.json", "_part=1/p.parquet",
    "odd ?#%41+&ü.parquet",
)  # fmt: skip
SOURCES = (
    "", "/", "/d", "/d/", "/a.parquet", "/notes.txt", "/*", "/*.parquet", "/*/*.parquet", "/**/*.parquet", "/lang=*",
    "/_*/*", "/d/**", "/a.*", "/odd ?#%41+&ü.parquet", "/d/d??p/*", "/[ab].*",
)  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of such files."""
    root = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


@pytest.fixture
def place(s3_place: S3Place) -> S3Place:
    """Put the same into S3."""
    for name in NAMES:
        s3_place.put(name, name.encode())
    return s3_place


def test_source_means_the_same_in_s3_as_in_a_folder(place: S3Place, tree: Path) -> None:
    """Files, folders and patterns: the same names, with the same columns from folders' names, and sizes known."""
    for source in SOURCES:
        local = [(file.path.removeprefix(str(tree)), file.partition) for file in find_files(f"{tree}{source}")]
        there = [(file.path.removeprefix(place.address), file.partition) for file in find_files(place.address + source)]
        assert (source, local) == (source, there)
    (file,) = find_files(f"{place.address}/a.parquet")
    assert file.facts is not None
    assert len("a.parquet") == file.facts.num_bytes
    assert file == next(each for each in find_files(place.address) if each.path == file.path)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("/none", r": there is no such object, and no \.parquet object below it$"),
        ("/_tmp.parquet/", r": there is no such object, and no \.parquet object below it$"),
        ("/*.none", ": no object matches the pattern$"),
    ],
)
def test_source_is_told_of_when_it_means_nothing(place: S3Place, source: str, told: str) -> None:
    """One line with the address."""
    with pytest.raises(OptionError, match=told) as caught:
        find_files(place.address + source)
    assert str(caught.value).startswith(f"source: {place.address}{source}")


def test_bucket_is_told_of_when_there_is_none(s3_place: S3Place) -> None:  # noqa: ARG001 - its server is asked
    """Of another name on the same server."""
    with pytest.raises(OptionError, match="s3://nobodys/x cannot be looked for: there is no such bucket"):
        find_files("s3://nobodys/x")


class Held(dict[int, bytes]):
    """What was written, by position."""

    def __call__(self, position: int, data: bytes) -> None:
        """Take bytes."""
        self[position] = data


@pytest.fixture
def proxy(s3_place: S3Place) -> Iterator[S3Proxy]:
    """Stand before the server, and see what is asked."""
    with S3Proxy(s3_place.server.endpoint_url) as proxy, reaching_s3(S3Settings(endpoint_url=proxy.endpoint_url)):
        yield proxy


def file_at(address: str, proxy: S3Proxy, facts: FileFacts | None = None) -> S3File:
    """Make a file that is read through the proxy."""
    return S3File(address, S3Settings(endpoint_url=proxy.endpoint_url), facts=facts)


def test_bytes_come_by_ranges_and_again_when_they_break_off(s3_place: S3Place, proxy: S3Proxy) -> None:
    """The end at first, then what is wanted; a range that breaks off comes whole in the end."""
    data = bytes(range(256)) * 1000
    file, held = file_at(s3_place.put("x", data), proxy), Held()
    facts = file.open(held)
    assert (len(data), {len(data) - 65_536: data[-65_536:]}) == (facts.num_bytes, held)
    held.clear()
    proxy.faults = script = Script(b"GET", b"/x", Fault.CUT_REPLY, Fault.SLOW_DOWN, Fault.DROP_REPLY)
    file.read(10, 200_000, held)
    assert ({10: data[10:200_000]}, []) == (held, script.left)


@pytest.mark.parametrize("data", [b"", b"1", b"x" * 65_536], ids=["empty", "one byte", "all in the end"])
def test_small_object_is_there_at_once(s3_place: S3Place, proxy: S3Proxy, data: bytes) -> None:
    """What is no longer than the end that is asked for first comes whole with it."""
    held = Held()
    facts = file_at(s3_place.put("x", data), proxy).open(held)
    assert (len(data), data) == (facts.num_bytes, b"".join(held.values()))


@pytest.mark.parametrize(
    ("change", "told"),
    [(b"other", "has changed"), (b"long" * 999, "has changed"), (b"", "has changed"), (None, "is gone")],
)
def test_object_is_told_of_when_it_is_another(
    s3_place: S3Place, proxy: S3Proxy, change: bytes | None, told: str
) -> None:
    """Of the same length, of another, empty, or gone: nothing of it is taken."""
    address, held = s3_place.put("x", b"first"), Held()
    facts = file_at(address, proxy).open(lambda *_: None)
    if change is None:
        s3_place.store().delete("x")
    else:
        s3_place.put("x", change)
    with pytest.raises(FileChangedError, match=told):
        file_at(address, proxy, facts).read(0, 5, held)
    assert {} == held


def test_object_is_told_of_when_there_is_none(s3_place: S3Place, proxy: S3Proxy) -> None:
    """Before it was ever looked at, it cannot be had."""
    with pytest.raises(UnreachableError, match="cannot be read: there is no such object"):
        file_at(f"{s3_place.address}/x", proxy).open(lambda *_: None)
