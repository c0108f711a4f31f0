"""What a body is, told from its first bytes: servers label pictures wrongly, and send web pages under their names."""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import Final

from evenshard.core.outcome import Failure, Reason

_READ: Final = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
)
"""First bytes of the formats that are read. RIFF (WebP), ISO media (AVIF) and BMP need a second look."""

_UNREAD: Final = (
    (b"II*\0\x10\0\0\0CR", "Canon camera raw"),
    (b"II+\0", "BigTIFF"),
    (b"MM\0+", "BigTIFF"),
    (b"II\xbc\x01", "JPEG XR"),
    (b"\0\0\x01\0", "ICO"),
    (b"\0\0\x02\0", "CUR"),
    (b"8BPS", "PSD"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    (b"\xff\x0a", "JPEG XL"),
    (b"%!PS", "PostScript"),
    (b"\xc5\xd0\xd3\xc6", "EPS"),
    (b"qoif", "QOI"),
    (b"DDS ", "DDS"),
    (b"BPG\xfb", "BPG"),
    (b"FLIF", "FLIF"),
    (b"\x76\x2f\x31\x01", "OpenEXR"),
    (b"#?RADIANCE", "Radiance HDR"),
    (b"icns", "ICNS"),
    (b"gimp xcf", "XCF"),
    (b"AT&TFORM", "DjVu"),
    (b"\x8aMNG", "MNG"),
    (b"\xd7\xcd\xc6\x9a", "WMF"),
    *((b"P%c%c" % (digit, space), "PNM") for digit in b"1234567" for space in b" \t\r\n"),
)
"""First bytes of picture formats that are refused: rare on the web, several of them by far too powerful
(PostScript runs programs), or of several pictures with none of them meant (ICO)."""

_OTHERS: Final = (
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x1aE\xdf\xa3", "a WebM or Matroska video"),
    (b"RIFF", "RIFF audio or video"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "MP3 audio"),
    (b"wOF", "a web font"),
)
_XML, _MARKUP = "XML", "markup"
_TEXTS: Final = (
    (b"<!doctype html", "a web page"),
    (b"<html", "a web page"),
    (b"<head", "a web page"),
    (b"<body", "a web page"),
    (b"<script", "a web page"),
    (b"<?xml", _XML),
    (b"<", _MARKUP),
    (b"{", "JSON"),
    (b"[", "JSON"),
)
_BMP_HEADER_BYTES: Final = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
_HEIF_BRANDS: Final = (b"hei", b"hev", b"mif1", b"msf1")
_HEAD_BYTES: Final = 512


def sniff(data: bytes) -> str | Failure:
    """Name the format of a picture, as Pillow spells it, or say why the bytes are none that is read.

    Nothing but the bytes counts, neither content type nor the link's ending. A first few bytes that fit are
    enough: whether the rest is whole is for `trim` and the decoder to say.
    """
    if (name := _read_format(data)) is not None:
        return name
    if (name := _unread_format(data)) is not None:
        return Failure(reason=Reason.UNSUPPORTED_FORMAT, detail=name)
    return Failure(reason=Reason.NOT_A_PICTURE, detail=f"it looks like {describe(data)}")


def _read_format(data: bytes) -> str | None:
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data[4:8] == b"ftyp" and any(brand in (b"avif", b"avis") for brand in _brands(data)):
        return "AVIF"
    # "BM" alone also begins many a text.
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADER_BYTES:
        return "BMP"
    if data.startswith(b"II*\0\x10\0\0\0CR"):
        return None
    return _first_match(data, _READ)


def _unread_format(data: bytes) -> str | None:
    if data[4:8] == b"ftyp":
        return "HEIC" if any(brand.startswith(_HEIF_BRANDS) for brand in _brands(data)) else None
    return _first_match(data, _UNREAD)


def _brands(data: bytes) -> list[bytes]:
    """List the brands of an ISO media file: the major one, then the compatible ones."""
    box = data[8 : min(int.from_bytes(data[:4], "big"), _HEAD_BYTES)]
    return [box[at : at + 4] for at in range(0, len(box), 4) if at != 4]  # at 4 stands a version


def describe(data: bytes) -> str:
    """Say what bytes seem to be that are not what was wanted."""
    if data[4:8] == b"ftyp":
        return "an MP4 or QuickTime video"
    if (binary := _first_match(data, _OTHERS)) is not None:
        return binary
    head = data[:_HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if (text := _first_match(head, _TEXTS)) is not None:
        return "SVG" if text in (_XML, _MARKUP) and b"<svg" in head else text
    if _is_text(head):
        return "text"
    return f"no known format, beginning {data[:8].hex(' ')}"


def _is_text(head: bytes) -> bool:
    try:
        # The incremental one does not mind a last letter that is cut.
        text = getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return text != "" and all(letter.isprintable() or letter.isspace() for letter in text)


def _first_match(data: bytes, table: tuple[tuple[bytes, str], ...]) -> str | None:
    return next((name for prefix, name in table if data.startswith(prefix)), None)
