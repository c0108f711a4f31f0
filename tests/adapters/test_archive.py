"""Archives of text: what is a member, what is a document, and what becomes of all that is neither."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import resource
import struct
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard.adapters import archive as adapter
from evenshard.adapters.archive import MAX_DOCUMENT_BYTES, MAX_MEMBER_BYTES, PART_DOCUMENTS, read_member, scan
from evenshard.adapters.unpack import XZ_MEMORY_BYTES
from evenshard.core.errors import ArchiveChangedError, ArchiveError, DamagedArchiveError
from evenshard.core.outcome import Reason
from evenshard.core.tar import MAX_END_BYTES
from evenshard.core.texts import Document, TextCounts, TextFailure
from tests.support.archives import (
    BAD_TEXTS,
    EMPTY_TEXTS,
    GOOD_TEXTS,
    Entry,
    documents,
    faulty_members,
    flipped,
    odd_texts,
    packed,
    tar,
    write_archive,
    write_uneven,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenshard.core.texts import Part

ROOT = Path(__file__).parents[2]
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def read_all(path: Path) -> tuple[dict[str, list[Document]], list[TextFailure], TextCounts]:
    """Read an archive: documents by member, failures, and counts, which must add up."""
    found = scan(str(path))
    parts = {member.name: list(read_member(member)) for member in found.members}
    failures = [*found.failures, *(failure for each in parts.values() for part in each for failure in part.failures)]
    counts = TextCounts.total([found.counts, *(part.counts for each in parts.values() for part in each)])
    assert counts.adds_up
    assert len(failures) == counts.num_members_failed + counts.num_failed
    assert all([part.is_last for part in each] == [False] * (len(each) - 1) + [True] for each in parts.values())
    return {name: _documents(each) for name, each in parts.items()}, failures, counts


def _documents(parts: Iterable[Part]) -> list[Document]:
    return [document for part in parts for document in part.documents]


def read_one(tmp_path: Path, data: bytes) -> tuple[list[Document], list[TextFailure], TextCounts]:
    """Read an archive of one member."""
    found, failures, counts = read_all(write_archive(tmp_path / "one.tar", {"m.xz": data}))
    return found["m.xz"], failures, counts


# --- Cases that others met


def test_faulty_members_are_told_apart(tmp_path: Path) -> None:
    """Of ten members six are sound, one of them without a document; the four others are named with the archive.

    Nine documents are certain; those of members that are gzip or a bare tar inside, four, are read too.
    """
    path = write_archive(tmp_path / "outer.tar", faulty_members())
    found, failures, counts = read_all(path)
    kept = {name.removeprefix("openwebtext/"): len(each) for name, each in found.items()}
    sound = {"good0.xz": 3, "good1.xz": 2, "two-streams.xz": 4, "gzip-inside.xz": 2, "not-packed.xz": 2}
    broken = {"empty.xz": 0, "corrupt.xz": 0, "cut.xz": 0, "text-not-tar.xz": 0}
    assert {**sound, **broken, "no-members.xz": 0} == kept
    assert {str(path)} == {failure.archive for failure in failures}
    assert {
        "openwebtext/empty.xz": "not-an-archive: it is empty",
        "openwebtext/corrupt.xz": "broken-archive: its xz stream is damaged: Corrupt input data",
        "openwebtext/cut.xz": "broken-archive: its xz stream is cut",
        "openwebtext/text-not-tar.xz": "not-an-archive: it looks like text",
    } == {failure.member: f"{failure.reason}: {failure.detail}" for failure in failures}
    assert (10, 6, 4, 13, 13) == (
        counts.members,
        counts.members_read,
        counts.num_members_failed,
        counts.documents,
        counts.kept,
    )


def test_odd_texts_are_kept_skipped_or_failed(tmp_path: Path) -> None:
    """Of twelve texts six stay as they are, sign for sign, two are skipped as empty, and four fail by name."""
    found, failures, counts = read_one(tmp_path, odd_texts())
    assert GOOD_TEXTS == {document.name: document.data.decode() for document in found}
    assert (12, 6, {"empty-text": 2}, {"not-utf-8": 4}) == (
        counts.documents,
        counts.kept,
        counts.skipped,
        counts.failed,
    )
    assert set(BAD_TEXTS) == {failure.document for failure in failures}
    assert {("m.xz", str(tmp_path / "one.tar"))} == {(failure.member, failure.archive) for failure in failures}
    assert not set(EMPTY_TEXTS) & {document.name for document in found}


def test_members_are_numbered_with_folders_counted(tmp_path: Path) -> None:
    """A member's place is that among all entries of the archive; a folder is none, nor counted as lost."""
    found = scan(str(write_uneven(tmp_path / "a.tar")))
    assert [(1, "openwebtext/a.xz"), (2, "openwebtext/b.xz"), (3, "openwebtext/c.xz")] == [
        (member.index, member.name) for member in found.members
    ]
    assert ((), 1) == (found.failures, found.others)


# --- What is a document

LONG = "folder/" * 30 + "x" * 90 + ".txt"


@pytest.mark.parametrize("style", FORMATS.values(), ids=FORMATS.keys())
def test_documents_are_those_of_the_standard_library(tmp_path: Path, style: int) -> None:
    """Whatever the style, names and texts are those that `tarfile` gives, doubled and odd names too."""
    names = ["a.txt", "b/c.txt", "a.txt", "/etc/abs.txt", "../../up.txt", "é.txt", "x" * 100 + "/long.txt"]
    names += [] if style == tarfile.USTAR_FORMAT else [LONG, "line\nbreak.txt"]
    data = tar((Entry(name=name, data=f"{index} {name}".encode()) for index, name in enumerate(names)), style=style)
    found, failures, _ = read_one(tmp_path, lzma.compress(data))
    assert [] == failures
    assert [(index, name, f"{index} {name}") for index, name in enumerate(names)] == [
        (document.position, document.name, document.data.decode()) for document in found
    ]


def test_entries_that_are_no_documents_are_counted_as_others(tmp_path: Path) -> None:
    """Links, devices, folders, hidden files and files of other names give nothing, and keep their places."""
    entries = [
        Entry(name="texts", kind=tarfile.DIRTYPE),
        Entry(name="hard.txt", kind=tarfile.LNKTYPE, link="/etc/passwd"),
        Entry(name="soft.txt", kind=tarfile.SYMTYPE, link="../../etc/passwd"),
        Entry(name="device.txt", kind=tarfile.CHRTYPE),
        Entry(name="pipe.txt", kind=tarfile.FIFOTYPE),
        Entry(name="README", data=b"not a document"),
        Entry(name="texts/._0001.txt", data=b"\0\5\x16\7Mac OS X"),
        Entry(name=".hidden.txt", data=b"hidden"),
        Entry(name="texts/0001.txt", data=b"text"),
    ]
    found, failures, counts = read_one(tmp_path, packed(entries))
    assert [Document(8, "texts/0001.txt", b"text")] == found
    assert ([], 1, 8) == (failures, counts.documents, counts.others)


def test_nothing_is_touched_on_disk_whatever_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Climbing and absolute names are labels: no file but the archive is opened."""
    opened: list[object] = []
    real = os.open

    def noting(path: str, *rest: int) -> int:
        opened.append(path)
        return real(path, *rest)

    (tmp_path / "victim.txt").write_text("untouched")
    entries = [
        Entry(name=str(tmp_path / "victim.txt"), data=b"absolute"),
        Entry(name="../victim.txt", data=b"climbing"),
        Entry(name="victim.txt", kind=tarfile.SYMTYPE, link=str(tmp_path / "victim.txt")),
    ]
    path = write_archive(tmp_path / "sub/one.tar", {"../m.xz": packed(entries)})
    monkeypatch.setattr(os, "open", noting)
    found, _, _ = read_all(path)
    assert [b"absolute", b"climbing"] == [document.data for document in found["../m.xz"]]
    assert {str(path)} == set(opened)
    assert "untouched" == (tmp_path / "victim.txt").read_text()
    assert ["sub", "victim.txt"] == sorted(entry.name for entry in tmp_path.iterdir())


def record(key: str, value: object) -> bytes:
    """Make a record of an extended header, whose length counts its own digits."""
    rest = f" {key}={value}\n".encode()
    return next(b"%d" % n + rest for n in range(len(rest), len(rest) + 5) if n == len(b"%d" % n + rest))


def header(name: str, *, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    """Make a header of one block."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def extended(records: bytes) -> bytes:
    """Make an extended header."""
    return header("x", kind=tarfile.XHDTYPE, size=len(records)) + records.ljust(512, b"\0")


def sparse_by_pax() -> bytes:
    """Make a file with holes as GNU tar does in the style of POSIX: a map, then the rest."""
    keys = {"GNU.sparse.major": 1, "GNU.sparse.minor": 0, "GNU.sparse.name": "hole.txt"}
    records = b"".join(record(key, value) for key, value in keys.items())
    return extended(records) + header("GNUSparseFile.0/hole.txt", size=512) + b"0\n" * 256


def sparse_by_gnu(*, num_maps: int) -> bytes:
    """Make an old GNU header of a file with holes, with further blocks of their map."""
    info = tarfile.TarInfo("hole.txt")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[482] = num_maps > 0
    total = sum(block[:148]) + sum(block[156:]) + 8 * 32
    block[148:156] = b"%06o\0 " % total
    maps = b"".join(bytes(504) + bytes([index < num_maps - 1]) + bytes(7) for index in range(num_maps))
    return bytes(block) + maps + b"x" * 512


SPARSE = {
    "pax": sparse_by_pax(),
    "gnu": sparse_by_gnu(num_maps=0),
    "gnu-with-a-long-map": sparse_by_gnu(num_maps=3),
}


@pytest.mark.parametrize("entry", SPARSE.values(), ids=SPARSE.keys())
def test_document_with_holes_fails_and_the_next_is_read(tmp_path: Path, entry: bytes) -> None:
    """What is stored of such a file is not its text; the file is a failure with its true name."""
    data = tar(documents(1, "before"), ends=False) + entry + tar(documents(1, "after"))
    found, failures, _ = read_one(tmp_path, lzma.compress(data))
    assert ["before/0000000.txt", "after/0000000.txt"] == [document.name for document in found]
    assert [("hole.txt", Reason.UNSUPPORTED_ENTRY)] == [(failure.document, failure.reason) for failure in failures]


def test_member_with_holes_fails(tmp_path: Path) -> None:
    """An archive's member that is stored without its holes is not read as if it were whole."""
    path = tmp_path / "a.tar"
    path.write_bytes(sparse_by_gnu(num_maps=1) + tar([Entry(name="b.xz", data=packed(documents(2, "b")))]))
    found, failures, counts = read_all(path)
    assert ["b.xz"] == list(found)
    assert [("hole.txt", Reason.UNSUPPORTED_ENTRY)] == [(failure.member, failure.reason) for failure in failures]
    assert (2, 2) == (counts.members, counts.kept)


def test_size_of_an_extended_header_counts(tmp_path: Path) -> None:
    """A size in the extended header goes before the one in the header, as for files beyond 8 GiB."""
    data = extended(record("size", 700)) + header("a.txt") + (b"t" * 700).ljust(1024, b"\0")
    found, _, _ = read_one(tmp_path, lzma.compress(data + tar(documents(1, "after"))))
    assert [700, 320] == [len(document.data) for document in found]


# --- What is a member

WRAPPINGS = {
    "xz": lzma.compress,
    "xz-many-streams": lambda data: b"".join(lzma.compress(data[at : at + 999]) for at in range(0, len(data), 999)),
    "xz-padding-between": lambda data: lzma.compress(data[:999]) + bytes(8) + lzma.compress(data[999:]) + bytes(4),
    "xz-without-check-sum": lambda data: lzma.compress(data, check=lzma.CHECK_NONE),
    "xz-sha256": lambda data: lzma.compress(data, check=lzma.CHECK_SHA256),
    "gzip": gzip.compress,
    "gzip-two-parts": lambda data: gzip.compress(data[:999]) + gzip.compress(data[999:]),
    "gzip-zeros-behind": lambda data: gzip.compress(data) + bytes(512),
    "bare": lambda data: data,
}


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS.keys())
def test_content_decides_what_a_member_is(tmp_path: Path, wrap: object) -> None:
    """Under one name a member may be xz of any number of streams, gzip, or a bare tar."""
    assert callable(wrap)
    found, failures, _ = read_one(tmp_path, wrap(tar(documents(5, "d"))))
    assert ([], [entry.data for entry in documents(5, "d")]) == (failures, [document.data for document in found])


WHOLE = tar(documents(3, "d"))
XZ = lzma.compress(WHOLE)
BROKEN: dict[str, tuple[bytes, Reason, str]] = {
    "no-byte": (b"", Reason.NOT_AN_ARCHIVE, "it is empty"),
    "xz-of-nothing": (lzma.compress(b""), Reason.NOT_AN_ARCHIVE, "it is empty"),
    "xz-of-a-zero": (lzma.compress(b"\0"), Reason.NOT_AN_ARCHIVE, "it holds nothing but zeros"),
    "xz-of-a-web-page": (lzma.compress(b"<!doctype html>"), Reason.NOT_AN_ARCHIVE, "it looks like a web page"),
    "text": (b"just text\n" * 99, Reason.NOT_AN_ARCHIVE, "it looks like text"),
    "bzip2": (b"BZh91AY&SY" + bytes(600), Reason.NOT_AN_ARCHIVE, "it looks like bzip2 data"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(600), Reason.NOT_AN_ARCHIVE, "it looks like zstd data"),
    "xz-in-xz": (lzma.compress(XZ), Reason.NOT_AN_ARCHIVE, "it looks like xz data"),
    "xz-half": (XZ[: len(XZ) // 2], Reason.BROKEN_ARCHIVE, "its xz stream is cut"),
    "xz-header-only": (XZ[:12], Reason.BROKEN_ARCHIVE, "its xz stream is cut"),
    "xz-last-byte-missing": (XZ[:-1], Reason.BROKEN_ARCHIVE, "its xz stream is cut"),
    "xz-wrong-check-sum": (flipped(XZ, len(XZ) - 40, 1), Reason.BROKEN_ARCHIVE, "its xz stream is damaged"),
    "xz-text-behind": (XZ + b"text", Reason.BROKEN_ARCHIVE, "other bytes stand behind its xz stream"),
    "xz-odd-zeros-behind": (XZ + bytes(3), Reason.BROKEN_ARCHIVE, "other bytes stand behind its xz stream"),
    "xz-second-stream-cut": (XZ + XZ[:50], Reason.BROKEN_ARCHIVE, "its xz stream is cut"),
    "gzip-cut": (gzip.compress(WHOLE)[:-9], Reason.BROKEN_ARCHIVE, "its gzip stream is cut"),
    "gzip-wrong-check-sum": (flipped(gzip.compress(WHOLE), -7, 1), Reason.BROKEN_ARCHIVE, "its gzip stream is damaged"),
    "gzip-text-behind": (gzip.compress(WHOLE) + b"text", Reason.BROKEN_ARCHIVE, "its gzip stream is damaged"),
    "tar-cut-in-a-document": (WHOLE[:700], Reason.BROKEN_ARCHIVE, "it is cut: 324 bytes are missing"),
    "tar-cut-in-a-header": (WHOLE[:1100], Reason.BROKEN_ARCHIVE, "it is cut: it ends within a block"),
    "tar-cut-between": (WHOLE[:1024], Reason.BROKEN_ARCHIVE, "it is cut: the mark of its end is missing"),
    "packed-tar-cut": (lzma.compress(WHOLE[:700]), Reason.BROKEN_ARCHIVE, "it is cut: 324 bytes are missing"),
    "tar-damaged-header": (flipped(WHOLE, 1024), Reason.BROKEN_ARCHIVE, "it has no valid header"),
    "tar-text-behind": (lzma.compress(WHOLE + b"text" * 128), Reason.BROKEN_ARCHIVE, "it has no valid header"),
    "only-zeros": (bytes(10_240), Reason.NOT_AN_ARCHIVE, "it holds nothing but zeros"),
    "very-many-zeros": (bytes(600_000), Reason.NOT_AN_ARCHIVE, "it holds nothing but zeros"),
    "one-zero": (b"\0", Reason.NOT_AN_ARCHIVE, "it holds nothing but zeros"),
    "zeros-for-ever": (lzma.compress(WHOLE + bytes(2 * MAX_END_BYTES)), Reason.BROKEN_ARCHIVE, "it is cut: only zeros"),
    "long-name-of-nothing": (
        lzma.compress(tar([Entry(name="x" * 200 + ".txt", data=b"t")], style=tarfile.GNU_FORMAT)[:1024]),
        Reason.BROKEN_ARCHIVE,
        "it is cut: the last header has no member",
    ),
}


@pytest.mark.parametrize(("data", "reason", "detail"), BROKEN.values(), ids=BROKEN.keys())
def test_member_fails_as_a_whole_when_it_is_broken(tmp_path: Path, data: bytes, reason: Reason, detail: str) -> None:
    """A broken member is one failure with its reason, and none of its documents counts, on every run."""
    path = write_archive(tmp_path / "a.tar", {"bad.xz": data, "good.xz": packed(documents(2, "good"))})
    found, failures, counts = read_all(path)
    assert ([], 2) == (found["bad.xz"], len(found["good.xz"]))
    assert [("bad.xz", None, reason)] == [(failure.member, failure.document, failure.reason) for failure in failures]
    assert failures[0].detail.startswith(detail)
    assert (2, 1, {reason.value: 1}) == (counts.members, counts.members_read, counts.members_failed)
    assert (found, failures, counts) == read_all(path)


def test_tar_without_its_end_mark_is_whole_when_a_check_sum_vouches(tmp_path: Path) -> None:
    """Some writers leave the mark out; packed, nothing can be missing behind the last document."""
    found, failures, _ = read_one(tmp_path, lzma.compress(tar(documents(3, "d"), ends=False)))
    assert (3, []) == (len(found), failures)


def test_tars_joined_end_to_end_are_read_on(tmp_path: Path) -> None:
    """What stands behind an end mark is not lost."""
    data = tar(documents(2, "a")) + tar(documents(3, "b"))
    found, failures, _ = read_one(tmp_path, lzma.compress(data))
    assert (5, []) == (len(found), failures)


@pytest.mark.parametrize("wrap", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_member_cut_anywhere_never_counts(tmp_path: Path, wrap: object) -> None:
    """However many bytes are lost from the end, no document is given out."""
    assert callable(wrap)
    data = wrap(WHOLE)
    for length in range(0, len(data), 7):
        found, failures, _ = read_one(tmp_path, data[:length])
        assert ([], 1) == (found, len(failures)), length


# --- Parts


def test_large_member_comes_in_parts(tmp_path: Path) -> None:
    """Documents come in their order in parts of at most 64, cut alike each time; only the last one says so."""
    count = 2 * PART_DOCUMENTS + 5
    (member,) = scan(str(write_archive(tmp_path / "a.tar", {"m.xz": packed(documents(count, "d"))}))).members
    parts = list(read_member(member))
    assert [PART_DOCUMENTS, PART_DOCUMENTS, 5] == [len(part.documents) for part in parts]
    assert [False, False, True] == [part.is_last for part in parts]
    assert [0, 0, 1] == [part.counts.members for part in parts]
    assert list(range(count)) == [document.position for document in _documents(parts)]


def test_member_is_read_twice_when_it_is_too_large_to_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit a member is looked at to its end first, and gives the same; damage at its end still counts."""
    expected = read_one(tmp_path, packed(documents(200, "d")))
    monkeypatch.setattr(adapter, "MAX_HELD_BYTES", 10_000)
    assert expected == read_one(tmp_path, packed(documents(200, "d")))
    damaged = packed(documents(200, "d"))
    found, failures, _ = read_one(tmp_path, flipped(damaged, len(damaged) - 40, 1))
    assert ([], [Reason.BROKEN_ARCHIVE]) == (found, [failure.reason for failure in failures])


# --- Limits


def test_document_of_the_limit_is_read_and_a_larger_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte too many makes a failure of the document, and of no other."""
    monkeypatch.setattr(adapter, "MAX_DOCUMENT_BYTES", 700)
    sizes = {"at.txt": 700, "above.txt": 701, "next.txt": 5}
    found, failures, _ = read_one(tmp_path, packed(Entry(name=name, data=b"x" * n) for name, n in sizes.items()))
    assert ["at.txt", "next.txt"] == [document.name for document in found]
    assert [("above.txt", Reason.DOCUMENT_TOO_LARGE)] == [(failure.document, failure.reason) for failure in failures]
    assert "701 bytes; at most 700 are read" == failures[0].detail


def test_member_that_unpacks_to_too_much_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit ends the reading of a member that goes on and on."""
    monkeypatch.setattr(adapter, "MAX_MEMBER_BYTES", 100_000)
    found, failures, _ = read_one(tmp_path, packed(documents(200, "d")))
    assert ([], [Reason.ARCHIVE_TOO_LARGE]) == (found, [failure.reason for failure in failures])


def declared(size: bytes) -> bytes:
    """Make a header that declares a size."""
    block = bytearray(tarfile.TarInfo("huge.txt").tobuf(tarfile.GNU_FORMAT))
    block[124:136] = size
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 8 * 32)
    return bytes(block)


HUGE = {"eight-gib": b"77777777777\0", "exabytes": b"\x80" + b"\xff" * 11}


@pytest.mark.parametrize("size", HUGE.values(), ids=HUGE.keys())
def test_huge_declared_size_takes_no_memory(tmp_path: Path, size: bytes) -> None:
    """A size that is not there is a cut, inside a member and of a member."""
    found, failures, _ = read_one(tmp_path, lzma.compress(declared(size) + b"x" * 512))
    assert ([], [Reason.BROKEN_ARCHIVE]) == (found, [failure.reason for failure in failures])
    (tmp_path / "outer.tar").write_bytes(tar([Entry(name="a.xz", data=XZ)], ends=False) + declared(size) + b"x" * 512)
    members, failures, counts = read_all(tmp_path / "outer.tar")
    assert (["a.xz"], 3) == (list(members), counts.kept)
    assert ["huge.txt"] == [failure.member for failure in failures]
    assert "bytes are missing at its end" in failures[0].detail


def with_dictionary(data: bytes, size: int) -> bytes:
    """Forge the size of the dictionary in an xz stream's first block header.

    Source: The .xz File Format 1.1.0, 3.1 and 5.3.1.
    """
    header = bytearray(data[12 : 12 + 4 * (data[12] + 1)])
    header[header.index(b"\x21\x01", 2) + 2] = size
    header[-4:] = struct.pack("<I", zlib.crc32(header[:-4]))
    return data[:12] + bytes(header) + data[12 + len(header) :]


def test_dictionary_beyond_the_memory_limit_is_refused(tmp_path: Path) -> None:
    """As much as `xz -9` needs is given, 4 GiB is not."""
    found, _, _ = read_one(tmp_path, lzma.compress(WHOLE, preset=9))
    assert 3 == len(found)
    assert 2**26 < XZ_MEMORY_BYTES
    found, failures, _ = read_one(tmp_path, with_dictionary(XZ, 40))
    assert ([], [Reason.ARCHIVE_TOO_LARGE]) == (found, [failure.reason for failure in failures])


def bomb(kind: str) -> bytes:
    """Make a member of some kB or MB that unpacks to hundreds of MB."""
    match kind:
        case "one-document":
            return lzma.compress(declared(b"04000000000\0")) + lzma.compress(b"a" * 2**24) * 32  # 4 x 8^9 is 2^29
        case "zeros":
            return XZ + lzma.compress(bytes(2**24)) * 32
        case "gzip":
            return gzip.compress(declared(b"04000000000\0") + bytes(2**29), compresslevel=1)
        case "many-documents":
            return lzma.compress(declared(b"00000000000\0") * 2**15) * 5
        case _:
            return lzma.compress(declared(b"00040000000\0") + b"a" * 2**23) * 32  # 32 texts of 8 MiB


@pytest.mark.parametrize("kind", ["one-document", "zeros", "gzip", "many-documents", "large-documents"])
def test_memory_stays_bounded_when_a_member_is_a_bomb(tmp_path: Path, kind: str) -> None:
    """What unpacks to hundreds of MB, in whatever way, grows the process by less than 150 MB."""
    path = write_archive(tmp_path / "a.tar", {"bomb.xz": bomb(kind)})
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from evenshard.adapters.archive import read_member, scan\n"
        "def peak_kb():\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    return next(int(line.split()[1]) for line in lines if line.startswith('VmHWM'))\n"
        "(member,) = scan(sys.argv[1]).members\n"
        "before = peak_kb()\n"
        "parts = sum(1 for part in read_member(member))\n"
        "print(peak_kb() - before, parts)\n"
    )
    limit = resource.RLIMIT_AS, (2**32, 2**32)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(*limit),
    )
    grown_kb, parts = map(int, done.stdout.split())
    assert grown_kb < 150_000
    assert parts > 0
    assert MAX_MEMBER_BYTES > 2**29 > MAX_DOCUMENT_BYTES


# --- The archive itself

SOUND = {"a.xz": packed(documents(2, "a")), "b.xz": packed(documents(3, "b"))}


def test_members_before_the_cut_count_when_an_archive_is_cut(tmp_path: Path) -> None:
    """Wherever an archive is cut, whole members count, and what is missing is one failure."""
    whole = write_archive(tmp_path / "whole.tar", SOUND).read_bytes()
    second = 512 + -(-len(SOUND["a.xz"]) // 512) * 512
    end = second + 512 + -(-len(SOUND["b.xz"]) // 512) * 512
    path = tmp_path / "cut.tar"
    for length in [*range(513, end, 97), second, second + 512, end - 1, end, end + 511, end + 512]:
        path.write_bytes(whole[:length])
        found, failures, counts = read_all(path)
        is_whole = [length >= 512 + len(SOUND["a.xz"]), length >= second + 512 + len(SOUND["b.xz"])]
        assert [name for name, whole in zip(SOUND, is_whole, strict=True) if whole] == list(found), length
        assert 2 * is_whole[0] + 3 * is_whole[1] == counts.kept
        assert (length < end + 512) == (len(failures) == 1), length


def test_rest_fails_as_one_when_a_header_is_damaged(tmp_path: Path) -> None:
    """Members before a damaged header count; that others may be lost behind it is a failure of the archive."""
    path = write_archive(tmp_path / "a.tar", SOUND)
    second = 512 + -(-len(SOUND["a.xz"]) // 512) * 512
    path.write_bytes(flipped(path.read_bytes(), second))
    found, failures, counts = read_all(path)
    assert (["a.xz"], 2) == (list(found), counts.kept)
    assert [(None, Reason.BROKEN_ARCHIVE, "it has no valid header")] == [
        (failure.member, failure.reason, failure.detail) for failure in failures
    ]


def test_download_that_was_not_finished_is_a_failure(tmp_path: Path) -> None:
    """A file whose space was reserved, and of which a part never came, is no archive with an early end."""
    whole = write_archive(
        tmp_path / "a.tar", {"a.xz": SOUND["a.xz"], **{f"{n}.xz": random.Random(n).randbytes(9_000) for n in range(20)}}
    )
    data = whole.read_bytes()
    second = 512 + -(-len(SOUND["a.xz"]) // 512) * 512
    whole.write_bytes(data[:second] + bytes(len(data) - second))
    found, failures, _ = read_all(whole)
    assert (["a.xz"], 1) == (list(found), len(failures))
    assert "only zeros follow byte" in failures[0].detail


NO_ARCHIVES: dict[str, tuple[bytes, str]] = {
    "no-byte": (b"", "it is empty"),
    "web-page": (b"<!DOCTYPE html><title>Sign in</title>", "it looks like a web page"),
    "gzip": (gzip.compress(WHOLE), "it looks like gzip data"),
    "xz": (XZ, "it looks like xz data"),
    "short": (b"x", "it looks like text"),
    "one-zero": (b"\0", "it holds nothing but zeros"),
    "many-zeros": (bytes(10**6), "it holds nothing but zeros"),
    "noise": (random.Random(1).randbytes(2000), "it looks like no known format"),
}


@pytest.mark.parametrize(("data", "problem"), NO_ARCHIVES.values(), ids=NO_ARCHIVES.keys())
def test_file_is_refused_when_it_is_no_archive(tmp_path: Path, data: bytes, problem: str) -> None:
    """A file that is no tar at all is an error that says what it looks like."""
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(DamagedArchiveError, match=f"^{problem}"):
        scan(str(tmp_path / "a.tar"))


def test_empty_archive_has_no_members(tmp_path: Path) -> None:
    """A tar of nothing is sound."""
    (tmp_path / "a.tar").write_bytes(tar([]))
    assert ((), ()) == (scan(str(tmp_path / "a.tar")).members, scan(str(tmp_path / "a.tar")).failures)


def test_file_that_is_not_plain_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to and a missing file are errors at once."""
    os.mkfifo(tmp_path / "pipe")
    for name, message in {"pipe": "no plain file", ".": "no plain file", "missing": "No such file"}.items():
        with pytest.raises(OSError, match=message):
            scan(str(tmp_path / name))


def test_headers_only_are_read_when_an_archive_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred members with 100 kB each no more is read than a header each, and the end."""
    path = write_archive(tmp_path / "a.tar", {f"{n}.xz": bytes([n]) * 100_000 for n in range(100)})
    asked: list[int] = []
    real = os.pread

    def counting(descriptor: int, num_bytes: int, offset: int) -> bytes:
        asked.append(num_bytes)
        return real(descriptor, num_bytes, offset)

    monkeypatch.setattr(os, "pread", counting)
    assert 100 == len(scan(str(path)).members)
    assert {512} == set(asked)
    assert len(asked) < 130


def test_changed_archive_is_an_error_not_a_broken_member(tmp_path: Path) -> None:
    """A file that is replaced, cut or gone after it was looked through is no matter of one text."""
    path = write_archive(tmp_path / "a.tar", SOUND)
    member = scan(str(path)).members[1]
    path.write_bytes(path.read_bytes()[:-512])
    with pytest.raises(ArchiveChangedError, match=r"a\.tar, member b\.xz: the archive has changed"):
        list(read_member(member))
    path.unlink()
    with pytest.raises(ArchiveError, match=r"a\.tar, member b\.xz: it cannot be read: No such file or directory"):
        list(read_member(member))


# --- Anything at all


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Overwrite, cut out, double or add a few bytes."""
    for _ in range(rng.randint(1, 3)):
        at = rng.choice([rng.randrange(len(data) + 1), rng.randrange(min(len(data), 600) + 1)])
        count = rng.choice([0, 1, 2, 8, 512, 5_000])
        piece = rng.choice([b"", rng.randbytes(rng.randint(1, 12)), data[at : at + count] * 2, bytes(512), b"\xff" * 4])
        data = data[:at] + piece + data[at + rng.choice([0, len(piece), count]) :]
    return data


INNER = tar([*documents(3, "d"), Entry(name="x" * 150 + ".txt", data=b"t"), Entry(name="l.txt", kind=tarfile.SYMTYPE)])
SEEDS = {
    "bare": (INNER, 5_000),
    "packed-after": (INNER, 3_000),
    "xz": (lzma.compress(INNER), 2_000),
    "gzip": (gzip.compress(INNER), 1_000),
    "gnu": (tar(documents(2, "y" * 120), style=tarfile.GNU_FORMAT), 1_000),
}


@pytest.mark.parametrize(("seed", "num_trials"), SEEDS.values(), ids=SEEDS.keys())
def test_counts_add_up_when_a_member_is_mutated(
    tmp_path: Path, request: pytest.FixtureRequest, seed: bytes, num_trials: int
) -> None:
    """Of 12,000 mutations each gives documents that are UTF-8, or failures; both add up, and come again."""
    rng = random.Random(7)
    packs = request.node.callspec.id == "packed-after"
    broken = 0
    for _ in range(num_trials):
        data = mutated(rng, seed)
        found, failures, counts = read_one(tmp_path, lzma.compress(data, preset=0) if packs else data)
        assert all(document.data.decode().strip() and document.name.endswith(".txt") for document in found)
        assert all(failure.detail.isprintable() for failure in failures)
        broken += counts.num_members_failed
    assert 0 < broken < num_trials


@pytest.mark.parametrize("name", ["whole.tar"])
def test_counts_add_up_when_an_archive_is_mutated(tmp_path: Path, name: str) -> None:
    """Of 2,000 mutations of a whole archive each is refused, or its members and failures add up."""
    rng = random.Random(8)
    whole = write_archive(tmp_path / name, {**SOUND, "c.xz": INNER}).read_bytes()
    refused = read = 0
    for _ in range(2_000):
        (tmp_path / name).write_bytes(mutated(rng, whole))
        try:
            _, failures, _ = read_all(tmp_path / name)
        except DamagedArchiveError:
            refused += 1
            continue
        read += bool(failures)
    assert min(refused, read) > 100


@settings(max_examples=400, deadline=None, derandomize=True)
@given(data=st.binary(max_size=3_000) | st.binary(max_size=400).map(lambda data: lzma.compress(data, preset=0)))
def test_no_bytes_make_it_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Arbitrary bytes as a member are one failure; as an archive they are refused."""
    folder = tmp_path_factory.getbasetemp()
    found, failures, _ = read_one(folder, data)
    assert ([], 1) == (found, len(failures))
    (folder / "any.tar").write_bytes(data)
    with pytest.raises(DamagedArchiveError):
        scan(str(folder / "any.tar"))
