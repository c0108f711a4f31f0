"""xz streams through the fastest liblzma at hand: the one that Pillow's wheels bring, or else Python's own.

Decoding in liblzma 5.8 takes half the time of that in 5.4, which many systems still have; see
tests/benchmarks/README.md. Pillow is there anyway, and what it brings is loaded through liblzma's public interface,
which has not changed since 5.0. No picture code is imported.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from lzma import FORMAT_XZ, LZMADecompressor, LZMAError
from pathlib import Path
from typing import Any, Final, Protocol

PIECE_BYTES: Final = 2**16
"""Given at most by one call."""
MIN_VERSION: Final = 50_080_000
"""5.8.0. The decoder is the fast one from 5.6.0 on, but that and 5.6.1 have a door for a stranger in them."""


class XzDecoder(Protocol):
    """Decodes one stream; what is not known to it raises `LZMAError`."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached, and its check sums were right."""

    @property
    def needs_input(self) -> bool:
        """Whether a call without data gives nothing more."""

    @property
    def unused_data(self) -> bytes:
        """What stands behind the end."""

    def decompress(self, data: bytes, /, max_length: int) -> bytes:
        """Decode on; gives at most so many bytes, and keeps what of the data it did not come to."""


def xz_decoder(memory_bytes: int) -> XzDecoder:
    """Make a decoder for one stream.

    Args:
        memory_bytes: as much as its dictionary may take; a stream that asks for more is an error that says "limit".
    """
    library = _library()
    if library is None:
        return LZMADecompressor(FORMAT_XZ, memlimit=memory_bytes)
    return _Decoder(library, memory_bytes)


class _Stream(ctypes.Structure):
    """`lzma_stream`. Source: liblzma 5.8, `lzma/base.h`; reserved members are zero."""

    _fields_ = (
        ("next_in", ctypes.c_char_p),
        ("avail_in", ctypes.c_size_t),
        ("total_in", ctypes.c_uint64),
        ("next_out", ctypes.c_void_p),
        ("avail_out", ctypes.c_size_t),
        ("total_out", ctypes.c_uint64),
        ("allocator", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
        ("reserved_pointers", ctypes.c_void_p * 4),
        ("seek_pos", ctypes.c_uint64),
        ("reserved_int2", ctypes.c_uint64),
        ("reserved_int3", ctypes.c_size_t),
        ("reserved_int4", ctypes.c_size_t),
        ("reserved_enums", ctypes.c_int * 2),
    )


_OK: Final = 0
_STREAM_END: Final = 1
_BUFFER_ERROR: Final = 10
"""Nothing could be done with what was given: no error of the stream."""
_PROBLEMS: Final = {
    6: "Memory usage limit exceeded",
    7: "Input format not supported by decoder",
    8: "Invalid or unsupported options",
    9: "Corrupt input data",
}
"""`lzma_ret`, in the words of Python's own module."""
_MEMORY_ERROR: Final = 5


@cache
def _library() -> Any:  # noqa: ANN401 - ctypes has no type for functions of a library
    """Load Pillow's liblzma; None where there is none, as with Pillow from source, or where it is old."""
    pillow = find_spec("PIL")
    if pillow is None or pillow.origin is None:
        return None
    for path in sorted(Path(pillow.origin).parents[1].glob("pillow.libs/liblzma-*.so.5*")):
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(path))
            if library.lzma_version_number() >= MIN_VERSION:
                library.lzma_stream_decoder.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32)
                library.lzma_code.argtypes = (ctypes.c_void_p, ctypes.c_int)
                library.lzma_end.argtypes = (ctypes.c_void_p,)
                library.lzma_end.restype = None
                return library
    return None


class _Decoder:
    def __init__(self, library: Any, memory_bytes: int) -> None:  # noqa: ANN401 - see _library
        self.eof = False
        self.needs_input = True
        self.unused_data = b""
        self._code, self._end = library.lzma_code, library.lzma_end
        self._data = b""  # liblzma has its address, so that it is kept
        self._out = ctypes.create_string_buffer(PIECE_BYTES)
        self._stream = _Stream()
        self._address = ctypes.addressof(self._stream)
        _check(library.lzma_stream_decoder(self._address, memory_bytes, 0))

    def decompress(self, data: bytes, /, max_length: int) -> bytes:
        stream = self._stream
        if data:
            left = stream.avail_in
            self._data = self._data[len(self._data) - left :] + data if left else data
            stream.next_in, stream.avail_in = self._data, len(self._data)
        stream.next_out, stream.avail_out = ctypes.addressof(self._out), min(max_length, PIECE_BYTES)
        given = stream.avail_out
        status = self._code(self._address, 0)
        given -= stream.avail_out
        if status == _STREAM_END:
            self.eof = True
            self.unused_data = self._data[len(self._data) - stream.avail_in :]
        elif status not in (_OK, _BUFFER_ERROR):
            _check(status)
        self.needs_input = not (self.eof or stream.avail_in or not stream.avail_out)
        return ctypes.string_at(self._out, given)

    def __del__(self) -> None:
        self._end(self._address)


def _check(status: int) -> None:
    if status == _MEMORY_ERROR:
        raise MemoryError
    if status != _OK:
        raise LZMAError(_PROBLEMS.get(status, f"liblzma says {status}"))
