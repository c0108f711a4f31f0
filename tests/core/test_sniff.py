"""What bodies are taken for, by their first bytes."""

from __future__ import annotations

import pytest

from evenshard.core.outcome import Failure, Reason
from evenshard.core.sniff import sniff

READ: dict[str, tuple[bytes, str]] = {
    "jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF", "JPEG"),
    "jpeg-bare": (b"\xff\xd8\xff\xdb", "JPEG"),
    "png": (b"\x89PNG\r\n\x1a\n", "PNG"),
    "gif-six-bytes": (b"GIF89a", "GIF"),
    "gif-87": (b"GIF87a", "GIF"),
    "webp": (b"RIFF\x24\0\0\0WEBPVP8 ", "WEBP"),
    "tiff-little": (b"II*\0\x08\0\0\0", "TIFF"),
    "tiff-big": (b"MM\0*\0\0\0\x08", "TIFF"),
    "bmp": (b"BM" + bytes(12) + b"\x28\0\0\0", "BMP"),
    "bmp-old": (b"BM" + bytes(12) + b"\x0c\0\0\0", "BMP"),
    "avif": (b"\0\0\0\x1cftypavif\0\0\0\0mif1miaf", "AVIF"),
    "avif-by-a-later-brand": (b"\0\0\0\x1cftypmif1\0\0\0\0miafavif", "AVIF"),
}

UNREAD: dict[str, tuple[bytes, str]] = {
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
    "heif-sequence": (b"\0\0\0\x18ftypmsf1\0\0\0\0msf1hevc", "HEIC"),
    "jpeg-xl": (b"\xff\x0a\xfa\x1f", "JPEG XL"),
    "jpeg-xl-boxed": (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    "jpeg-2000": (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
    "ico": (b"\0\0\x01\0\x01\0\x10\x10", "ICO"),
    "psd": (b"8BPS\0\x01", "PSD"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n", "PostScript"),
    "pnm": (b"P6\n2 2\n255\n", "PNM"),
    "big-tiff": (b"II+\0\x08\0\0\0", "BigTIFF"),
    "camera-raw": (b"II*\0\x10\0\0\0CR\x02\0", "Canon camera raw"),
    "qoi": (b"qoif\0\0\0\x01", "QOI"),
}

OTHERS: dict[str, tuple[bytes, str]] = {
    "web-page": (b"\xef\xbb\xbf\r\n <!DOCTYPE html><html><svg></svg></html>", "a web page"),
    "web-page-without-doctype": (b"<html><head>", "a web page"),
    "xml": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
    "svg-in-xml": (b"<?xml version='1.0'?>\n<!-- made by hand -->\n<svg/>", "SVG"),
    "json": (b'{"error": "not found"}', "JSON"),
    "text": (b"Not Found", "text"),
    "text-that-begins-as-bmp": (b"BMW sells cars, not pictures", "text"),
    "text-that-begins-as-pnm": (b"P60 is a phone", "text"),
    "pdf": (b"%PDF-1.7", "a PDF document"),
    "gzip": (b"\x1f\x8b\x08\0", "gzip data"),
    "video": (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "an MP4 or QuickTime video"),
    "sound": (b"RIFF\x24\0\0\0WAVEfmt ", "RIFF audio or video"),
    "two-bytes-of-jpeg": (b"\xff\xd8", "no known format, beginning ff d8"),
    "zeros": (bytes(20), "no known format, beginning 00 00 00 00 00 00 00 00"),
    "one-byte": (b"\0", "no known format, beginning 00"),
    "blank": (b" \n ", "no known format, beginning 20 0a 20"),
}


@pytest.mark.parametrize(("data", "name"), READ.values(), ids=READ.keys())
def test_sniff_names_a_format_that_is_read(data: bytes, name: str) -> None:
    """A few first bytes that fit are enough."""
    assert name == sniff(data)


@pytest.mark.parametrize(("data", "name"), UNREAD.values(), ids=UNREAD.keys())
def test_sniff_names_a_picture_format_that_is_refused(data: bytes, name: str) -> None:
    """A picture of another kind is told apart from what is no picture."""
    assert Failure(reason=Reason.UNSUPPORTED_FORMAT, detail=name) == sniff(data)


@pytest.mark.parametrize(("data", "what"), OTHERS.values(), ids=OTHERS.keys())
def test_sniff_says_what_else_it_looks_like(data: bytes, what: str) -> None:
    """A person can act on the report: a web page is not a video."""
    assert Failure(reason=Reason.NOT_A_PICTURE, detail=f"it looks like {what}") == sniff(data)
