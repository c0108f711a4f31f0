"""Packed bytes as a stream of plain ones: xz and gzip, told by their first bytes, or bare.

Nothing is held but a piece before and a piece behind the decoder, whatever it unpacks to.
"""

from __future__ import annotations

import zlib
from lzma import LZMAError
from typing import TYPE_CHECKING, Final, Protocol, cast

from evenshard.adapters.xz import PIECE_BYTES, xz_decoder
from evenshard.core.errors import DamagedArchiveError
from evenshard.core.outcome import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from evenshard.adapters.xz import XzDecoder

XZ_MEMORY_BYTES: Final = 2**27
"""For the dictionary of one stream, which its header asks for: `xz -9` takes 65 MiB, a forged header up to 4 GiB."""
_XZ: Final = b"\xfd7zXZ\0"
_GZIP: Final = b"\x1f\x8b\x08"
_PADDING_BYTES: Final = 4
"""Zeros between xz streams come in multiples of this. Source: The .xz File Format 1.1.0, 2.2."""


class Rewindable(Protocol):
    """What packed bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Read on; nothing at the end."""

    def rewind(self) -> None:
        """Go back to the first byte."""


def unpack(file: Rewindable) -> tuple[bool, Iterator[bytes]]:
    """Unpack from the first byte to the last, whatever the file is called.

    Returns:
        Whether it was packed, and so has a check sum over all of it; and the plain bytes in pieces.

    Raises:
        DamagedArchiveError: while iterating: cut, damaged, or asking for too much memory.
    """
    file.rewind()
    head = file.read(len(_XZ))
    file.rewind()
    if head.startswith(_XZ):
        return True, _unpack_xz(file)
    if head.startswith(_GZIP):
        return True, _unpack_gzip(file)
    return False, iter(lambda: file.read(PIECE_BYTES), b"")


def _unpack_xz(file: Rewindable) -> Iterator[bytes]:
    """Go through any number of streams; what stands behind the last one is damage."""
    data = file.read(PIECE_BYTES)
    while data:
        decoder = xz_decoder(XZ_MEMORY_BYTES)
        while not decoder.eof:
            if decoder.needs_input and not data:
                data = file.read(PIECE_BYTES)
                if not data:
                    raise DamagedArchiveError(Reason.BROKEN_ARCHIVE, "its xz stream is cut")
            yield _decode(decoder, data)
            data = b""
        data = _without_padding(decoder.unused_data, file)


def _decode(decoder: XzDecoder, data: bytes) -> bytes:
    try:
        return decoder.decompress(data, PIECE_BYTES)
    except LZMAError as error:
        reason = Reason.ARCHIVE_TOO_LARGE if "limit" in str(error) else Reason.BROKEN_ARCHIVE
        raise DamagedArchiveError(reason, f"its xz stream is damaged: {error}") from None


def _without_padding(data: bytes, file: Rewindable) -> bytes:
    """Find where the next stream begins; nothing at the end."""
    num_zeros = 0
    while data:
        rest = data.lstrip(b"\0")
        num_zeros += len(data) - len(rest)
        if rest:
            break
        data = file.read(PIECE_BYTES)
    else:
        rest = b""
    if num_zeros % _PADDING_BYTES or rest[: len(_XZ)] != _XZ[: len(rest)]:
        raise DamagedArchiveError(Reason.BROKEN_ARCHIVE, "other bytes stand behind its xz stream")
    return rest


def _unpack_gzip(file: Rewindable) -> Iterator[bytes]:
    from gzip import BadGzipFile, GzipFile  # noqa: PLC0415 - rare, and worker processes start often

    with GzipFile(fileobj=cast("IO[bytes]", file), mode="rb") as unzipped:
        while True:
            try:
                piece = unzipped.read(PIECE_BYTES)
            except EOFError:
                raise DamagedArchiveError(Reason.BROKEN_ARCHIVE, "its gzip stream is cut") from None
            except (BadGzipFile, zlib.error) as error:
                problem = f"its gzip stream is damaged: {error}"
                raise DamagedArchiveError(Reason.BROKEN_ARCHIVE, problem) from None
            if not piece:
                return
            yield piece
