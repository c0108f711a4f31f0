"""Headers of tars."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard.core.errors import DamagedArchiveError
from evenshard.core.names import shown
from evenshard.core.tar import Header, Kind, Pax, padded, parse_header, parse_pax
from tests.support.archives import Entry, tar

PLAIN = tar([Entry(name="a.txt", data=b"text")], style=tarfile.USTAR_FORMAT)[:512]


def with_sum(block: bytes, *, signed: bool = False) -> bytes:
    """Set the check sum that a header must have."""
    blank = block[:148] + b" " * 8 + block[156:]
    total = sum(byte - 256 if signed and byte > 127 else byte for byte in blank)
    return blank[:148] + b"%06o\0 " % total + blank[156:]


def changed(at: int, data: bytes) -> bytes:
    """Overwrite a part of a plain file's header, and set its check sum."""
    return with_sum(PLAIN[:at] + data + PLAIN[at + len(data) :])


HEADERS: dict[str, tuple[bytes, Header]] = {
    "plain": (PLAIN, Header("a.txt", Kind.FILE, 4)),
    "older-than-posix": (with_sum(PLAIN[:257] + bytes(255)), Header("a.txt", Kind.FILE, 4)),
    "signed-sum": (with_sum(changed(0, b"\xe9\xff"), signed=True), Header("\\xe9\\xfftxt", Kind.FILE, 4)),
    "contiguous": (changed(156, b"7"), Header("a.txt", Kind.FILE, 4)),
    "older-folder": (with_sum(changed(0, b"a/\0\0\0")[:156] + bytes(356)), Header("a/", Kind.FOLDER, 0)),
    "folder-with-a-size": (changed(156, b"5"), Header("a.txt", Kind.FOLDER, 0)),
    "hard-link-with-a-size": (changed(156, b"1"), Header("a.txt", Kind.LINK, 0)),
    "soft-link": (changed(156, b"2"), Header("a.txt", Kind.LINK, 0)),
    "character-device": (changed(156, b"3"), Header("a.txt", Kind.DEVICE, 0)),
    "block-device": (changed(156, b"4"), Header("a.txt", Kind.DEVICE, 0)),
    "pipe": (changed(156, b"6"), Header("a.txt", Kind.DEVICE, 0)),
    "continuation": (changed(156, b"M"), Header("a.txt", Kind.OTHER, 4)),
    "volume-label": (changed(156, b"V"), Header("a.txt", Kind.OTHER, 4)),
    "holes": (changed(156, b"S"), Header("a.txt", Kind.SPARSE, 4)),
    "many-holes": (
        with_sum(changed(156, b"S")[:482] + b"\1" + bytes(29)),
        Header("a.txt", Kind.SPARSE, 4, goes_on=True),
    ),
    "prefix": (changed(345, b"folder"), Header("folder/a.txt", Kind.FILE, 4)),
    "no-prefix-in-gnu": (changed(257, b"ustar  \0" + bytes(80) + b"12345670"), Header("a.txt", Kind.FILE, 4)),
    "size-without-zeros": (changed(124, b"          12"), Header("a.txt", Kind.FILE, 10)),
    "size-blank": (changed(124, b" " * 12), Header("a.txt", Kind.FILE, 0)),
    "size-of-base-256": (changed(124, b"\x80" + bytes(3) + (2**40).to_bytes(8)), Header("a.txt", Kind.FILE, 2**40)),
    "size-of-95-bits": (changed(124, b"\x80" + b"\xff" * 11), Header("a.txt", Kind.FILE, 2**88 - 1)),
    "climbing-name": (changed(0, b"../../etc/passwd"), Header("../../etc/passwd", Kind.FILE, 4)),
    "absolute-name": (changed(0, b"/etc/passwd"), Header("/etc/passwd", Kind.FILE, 4)),
}


@pytest.mark.parametrize(("block", "header"), HEADERS.values(), ids=HEADERS.keys())
def test_header_is_read_as_it_is_meant(block: bytes, header: Header) -> None:
    """Every way of writing a header that is in use gives name, kind and the bytes that follow."""
    assert header == parse_header(block)


DAMAGED: dict[str, bytes] = {
    "text": b"Lorem ipsum dolor sit amet, " * 18 + b"end.    ",
    "one-bit": bytes([PLAIN[0] ^ 1]) + PLAIN[1:],
    "sum-not-a-number": PLAIN[:148] + b"kilobyte" + PLAIN[156:],
    "sum-not-octal": PLAIN[:148] + b"000980\0 " + PLAIN[156:],
    "sum-blank": PLAIN[:148] + b" " * 8 + PLAIN[156:],
    "sum-modulo-65521": PLAIN[:148] + b"%07o\0" % (int(PLAIN[148:154], 8) + 65_521) + PLAIN[156:],
    "size-negative": changed(124, b"-00000000004"),
    "size-negative-base-256": changed(124, b"\xff" * 12),
    "size-with-python-underscore": changed(124, b"0000000_004\0"),
    "size-not-octal": changed(124, b"00000000009\0"),
    "size-as-hexadecimal": changed(124, b"0x000000004\0"),
}


@pytest.mark.parametrize("block", DAMAGED.values(), ids=DAMAGED.keys())
def test_header_is_refused_when_it_is_damaged(block: bytes) -> None:
    """What breaks a rule of the format is no header, however little of it."""
    with pytest.raises(DamagedArchiveError):
        parse_header(block)


def test_sum_is_exact_when_the_quick_one_would_do() -> None:
    """A sum of more than 65,521 is right as it is, and wrong if that much is missing."""
    heavy = with_sum(b"\xfe" * 100 + PLAIN[100:156] + b"0" + b"\xfe" * 355)
    assert 65_521 < int(heavy[148:154], 8)
    assert parse_header(heavy).num_bytes == 4
    with pytest.raises(DamagedArchiveError):
        parse_header(heavy[:148] + b"%06o\0 " % (int(heavy[148:154], 8) - 65_521) + heavy[156:])


PAX: dict[str, tuple[bytes, Pax]] = {
    "nothing": (b"", Pax()),
    "path": (b"17 path=d/\xc3\xa9.txt\n", Pax(name="d/é.txt")),
    "path-not-utf-8": (b"14 path=\xe9.txt\n", Pax(name="\\xe9.txt")),
    "size": (b"13 size=4096\n", Pax(num_bytes=4096)),
    "last-one-counts": (b"10 path=a\n10 path=b\n", Pax(name="b")),
    "equals-in-value": (b"12 path=a=b\n", Pax(name="a=b")),
    "line-break-in-value": (b"12 path=a\nb\n", Pax(name="a\nb")),
    "holes": (b"22 GNU.sparse.major=1\n19 GNU.sparse.name=\n"[:22], Pax(has_holes=True)),
    "name-of-a-file-with-holes": (b"11 path=no\n21 GNU.sparse.name=a\n", Pax(name="a", has_holes=True)),
    "of-no-interest": (b"20 mtime=1234567.89\n", Pax()),
    "zeros-behind": (b"10 path=a\n" + bytes(20), Pax(name="a")),
}


@pytest.mark.parametrize(("data", "pax"), PAX.values(), ids=PAX.keys())
def test_extended_header_changes_what_it_says(data: bytes, pax: Pax) -> None:
    """Name, size and holes are taken from the records, and all other records are passed over."""
    assert pax == parse_pax(data)


BAD_PAX = [
    b"x",
    b"8 path=a\n",
    b"11 path=a\n",
    b"0 path=a\n",
    b"8 pathxx\n",
    b"6 =aa\n",
    b"10 path=ab",
    b"-1 a=b\n",
    b"9" * 20,
    b"99999999999999999999 a=b\n",
    b"10 size=x\n",
    b"11 size=-1\n",
    b"5012 size=" + b"9" * 5_001 + b"\n",
]


@pytest.mark.parametrize("data", BAD_PAX, ids=lambda data: data[:12].decode().replace("\n", "|"))
def test_extended_header_is_refused_when_it_is_damaged(data: bytes) -> None:
    """A record that is not as long as it says, or has no key, is damage."""
    with pytest.raises(DamagedArchiveError):
        parse_pax(data)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(block=st.binary(min_size=512, max_size=512), data=st.binary(max_size=200))
def test_no_bytes_make_it_raise_anything_else(block: bytes, data: bytes) -> None:
    """Whatever the bytes, and with a right sum too, there is a header or the one error."""
    for parse, given_bytes in ((parse_header, block), (parse_header, with_sum(block)), (parse_pax, data)):
        with suppress(DamagedArchiveError):
            assert parse(given_bytes) == parse(given_bytes)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60),
    size=st.integers(0, 2**40),
    is_old=st.booleans(),
)
def test_header_says_the_same_as_to_the_standard_library(name: str, size: int, is_old: bool) -> None:
    """What `tarfile` writes into one block is read as `tarfile` reads it."""
    info = tarfile.TarInfo(name)
    info.size = size % 2**30 if is_old else size
    try:
        block = info.tobuf(tarfile.USTAR_FORMAT if is_old else tarfile.GNU_FORMAT)
    except ValueError:  # too long for the old style
        return
    if len(block) > 512:
        return
    theirs = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    assert Header(name, Kind.FILE, theirs.size) == parse_header(block)


def test_room_is_whole_blocks() -> None:
    """Data takes whole blocks."""
    assert [0, 512, 512, 1024] == [padded(num_bytes) for num_bytes in (0, 1, 512, 513)]


def test_name_is_shown_on_one_line_whatever_it_is() -> None:
    """Line breaks and control signs are escaped, and very long names are cut."""
    assert "é.txt" == shown("é.txt")
    assert "a\\nb\\x1b[2J" == shown("a\nb\x1b[2J")
    assert 200 == len(shown("x" * 10_000))


def test_sizes_of_all_kinds_are_those_of_a_real_tar() -> None:
    """Reading all headers of a tar one by one arrives at its end mark."""
    data = tar(
        [Entry(name="a.txt", data=b"x" * 700), Entry(name="d", kind=tarfile.DIRTYPE), Entry(name="b.txt", data=b"")]
    )
    file, found = io.BytesIO(data), []
    while (block := file.read(512)) != bytes(512):
        found.append(parse_header(block))
        file.seek(padded(found[-1].num_bytes), io.SEEK_CUR)
    assert ["a.txt", "d", "b.txt"] == [header.name.rstrip("/") for header in found]
