"""The decoder of Pillow's liblzma: in each point what Python's own says, and that where there is no other."""

from __future__ import annotations

import gc
import lzma
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard.adapters import xz
from evenshard.adapters.unpack import XZ_MEMORY_BYTES, unpack
from evenshard.core.errors import DamagedArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = XZ_MEMORY_BYTES


def texts(num_bytes: int, seed: int = 1) -> bytes:
    """Make bytes that pack as text does."""
    rng = random.Random(seed)
    words = [rng.randbytes(rng.randrange(2, 9)).hex().encode() for _ in range(500)]
    return b" ".join(rng.choices(words, k=num_bytes // 8))[:num_bytes]


def decoded(decoder: xz.XzDecoder, data: bytes, *, given: int, wanted: int) -> tuple[bytes, bytes, bool, str]:
    """Decode by pieces; gives the bytes, those behind the end, whether there was one, and the error."""
    found, at = [], 0
    try:
        while not decoder.eof:
            piece = b""
            if decoder.needs_input:
                piece, at = data[at : at + given], at + given
                if not piece:
                    break
            found.append(decoder.decompress(piece, wanted))
    except lzma.LZMAError as error:
        return b"".join(found), b"", False, str(error)
    return b"".join(found), decoder.unused_data + data[at:], decoder.eof, ""


def both(data: bytes, *, given: int = 2**16, wanted: int = 2**16, limit: int = LIMIT) -> list[Any]:
    """Decode with ours and with Python's."""
    decoders = (xz.xz_decoder(limit), lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limit))
    return [decoded(decoder, data, given=given, wanted=wanted) for decoder in decoders]


def streams() -> dict[str, bytes]:
    """Make streams, sound and not."""
    text = texts(300_000)
    sound = lzma.compress(text, preset=6)
    crc = lzma.compress(text, check=lzma.CHECK_CRC32)
    filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
    return {
        "text": sound,
        "crc32": crc,
        "sha256": lzma.compress(text, check=lzma.CHECK_SHA256),
        "no check": lzma.compress(text, check=lzma.CHECK_NONE),
        "empty": lzma.compress(b""),
        "zeros": lzma.compress(bytes(5_000_000)),
        "random": lzma.compress(random.Random(2).randbytes(200_000)),
        "filtered": lzma.compress(text, filters=filters),
        "large dictionary": lzma.compress(text, preset=9),
        "bytes behind": sound + b"behind",
        "another behind": sound + crc,
        "cut": sound[: len(sound) // 2],
        "cut in the footer": sound[:-5],
        "cut in the header": sound[:7],
        "old format": lzma.compress(text, format=lzma.FORMAT_ALONE),
        "wrong check": sound[:-40] + bytes(8) + sound[-32:],
        "forged header": b"\xfd7zXZ\0\0\x0f" + bytes(16),
        "no xz": b"PK\3\4" + bytes(40),
    }


def test_the_fast_library_is_there() -> None:
    """It is what Pillow's wheels have; without it, the rest here would compare Python's module with itself."""
    assert type(xz.xz_decoder(LIMIT)) is not lzma.LZMADecompressor


@pytest.mark.parametrize(("given", "wanted"), [(2**16, 2**16), (1, 2**16), (977, 313), (2**20, 2**16)])
@pytest.mark.parametrize("name", streams())
def test_decoders_agree(name: str, given: int, wanted: int) -> None:
    """Bytes, what is behind them, the end and the error's words are the same."""
    if given == 1 and name in ("random", "no check"):
        given = 11  # 200,000 calls say no more than these
    ours, python = both(streams()[name], given=given, wanted=wanted)
    assert ours == python


@pytest.mark.parametrize("preset", [6, 9])
def test_memory_limit_is_kept(preset: int) -> None:
    """A dictionary beyond the limit is refused with the same words, before it is taken."""
    data = lzma.compress(texts(1_000), preset=preset)
    ours, python = both(data, limit=2**20)
    assert ours == python
    assert "limit" in ours[3]


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 6), given=st.integers(1, 4_096), wanted=st.integers(1, 9_999))
def test_decoders_agree_on_damage(seed: int, count: int, given: int, wanted: int) -> None:
    """Some bytes changed, anywhere: the same bytes come before the same error, whoever decodes."""
    rng = random.Random(seed)
    data = bytearray(lzma.compress(texts(20_000, seed), preset=1))
    for _ in range(count):
        data[rng.randrange(len(data))] = rng.randrange(256)
    # How much comes out before an error may differ, by how far each decodes at a time; a prefix it is in any case.
    ours, python = both(bytes(data), given=given, wanted=wanted)
    assert ours[1:] == python[1:]
    if python[3]:
        assert ours[0].startswith(python[0]) or python[0].startswith(ours[0])
    else:
        assert ours[0] == python[0]


class _File:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, size: int, /) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def rewind(self) -> None:
        self._at = 0


def _unpacked(data: bytes) -> Iterator[bytes | str]:
    try:
        yield from unpack(_File(data))[1]
    except DamagedArchiveError as error:
        yield str(error)


@pytest.mark.parametrize("name", streams())
def test_member_unpacks_alike_with_and_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Pillow was built from source, sets have the same documents and the same failures."""
    data = streams()[name]
    with_it = [each for each in _unpacked(data) if each]
    monkeypatch.setattr(xz, "_library", lambda: None)
    assert type(xz.xz_decoder(LIMIT)) is lzma.LZMADecompressor
    without = [each for each in _unpacked(data) if each]
    assert [each for each in with_it if isinstance(each, str)] == [each for each in without if isinstance(each, str)]
    parts = [b"".join(each for each in found if isinstance(each, bytes)) for found in (with_it, without)]
    assert parts[0] == parts[1]


@pytest.mark.parametrize("kind", ["none", "old", "not a library", "no Pillow"])
def test_library_is_taken_only_where_it_is_one(kind: str, tmp_path: Path) -> None:
    """Without it, one that is old or one that does not load leaves Python's own module, and no error."""
    site = tmp_path / "site"
    (site / "PIL").mkdir(parents=True)
    (site / "pillow.libs").mkdir()
    if kind != "no Pillow":
        (site / "PIL" / "__init__.py").touch()
    if kind == "not a library":
        (site / "pillow.libs" / "liblzma-0.so.5.9").write_bytes(b"\x7fELF" + bytes(99))
    if kind == "old":
        (site / "pillow.libs" / "liblzma-0.so.5.9").symlink_to(_any_library())
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from evenshard.adapters import xz; "
        "print(type(xz.xz_decoder(2**27)).__module__, 'PIL' in sys.modules)"
    )
    if kind == "no Pillow":
        program = "import sys; sys.modules['PIL'] = None\n" + program.replace("'PIL' in sys.modules", "False")
    done = subprocess.run([sys.executable, "-c", program, str(site)], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["_lzma", "False"], "")


def _any_library() -> str:
    """Give a shared library that is no liblzma of the kind wanted."""
    import _ctypes  # noqa: PLC0415 - for its path alone

    return str(_ctypes.__file__)


def test_decoders_are_freed() -> None:
    """Each takes 9 MB for its dictionary; of 200, dropped in the middle or at their ends, none is left."""
    data = lzma.compress(texts(9_000_000, 3), preset=6)
    both(data)
    before = psutil.Process().memory_info().rss
    for cut in range(200):
        decoder = xz.xz_decoder(LIMIT)
        decoder.decompress(data[: 1_000 + cut * 100], 2**16)
        del decoder
    gc.collect()
    assert psutil.Process().memory_info().rss - before < 50e6
