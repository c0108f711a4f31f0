"""Bodies that are no whole picture, or too large: each is a failure with its reason, and nothing is ever raised."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from evenshard.adapters.image import Picture, make_picture
from evenshard.core.outcome import Failure, Reason
from evenshard.core.recipe import Encode, ImageOptions, Resize

OPTIONS = ImageOptions(size_px=24)


def encode(image: Image.Image, name: str, **settings: object) -> bytes:
    """Write a picture file."""
    with io.BytesIO() as file:
        image.save(file, name, **settings)
        return file.getvalue()


def scene(width: int = 48, height: int = 36) -> Image.Image:
    """Draw a picture with detail all over, so that a lost part is visible."""
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            image.putpixel((x, y), (x * 255 // width, y * 255 // height, (x * 7 + y * 13) % 256))
    return image


def moving(name: str) -> bytes:
    """Write a moving picture."""
    return encode(scene(), name, save_all=True, append_images=[scene().rotate(90 * turn) for turn in (1, 2, 3)])


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Write one PNG chunk."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, depth: int, colour: int, *chunks: bytes) -> bytes:
    """Write a PNG with any header and any chunks."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + png_chunk(b"IEND", b"")


def pixels(rows: bytes) -> bytes:
    """Write the PNG chunk that holds rows."""
    return png_chunk(b"IDAT", zlib.compress(rows))


def flip(data: bytes, at: int, count: int = 2) -> bytes:
    """Invert some bytes."""
    at %= len(data)
    return data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + count]) + data[at + count :]


def tiff_with(tag: int, value: int, image: Image.Image) -> bytes:
    """Write an uncompressed TIFF, then overwrite one of its short tags."""
    data = encode(image, "TIFF")
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    for at in range(start + 2, start + 2 + 12 * count, 12):
        if struct.unpack_from("<H", data, at) == (tag,):
            return data[: at + 2] + struct.pack("<HIHH", 3, 1, value, 0) + data[at + 12 :]
    raise AssertionError(f"no tag {tag}")


TIFF_BITS = struct.pack("<HHII", 258, 3, 3, 134)
"""The entry of a TIFF's directory that says where its bits per sample are, as Pillow writes it."""
BASELINE, PROGRESSIVE = encode(scene(), "JPEG", quality=90), encode(scene(), "JPEG", quality=90, progressive=True)
FIRST_SCAN = PROGRESSIVE.index(b"\xff\xda")
SECOND_SCAN = PROGRESSIVE.index(b"\xff\xda", FIRST_SCAN + 2)
PNG, RGBA_PNG = encode(scene(), "PNG"), encode(scene().convert("RGBA"), "PNG")
PALETTE_PNG = encode(scene().quantize(16), "PNG")
EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
WHOLE: dict[str, bytes] = {
    "jpeg": BASELINE,
    "jpeg-progressive": PROGRESSIVE,
    "jpeg-grey": encode(scene().convert("L"), "JPEG"),
    "jpeg-cmyk": encode(scene().convert("CMYK"), "JPEG"),
    "jpeg-exif": encode(scene(), "JPEG", exif=EXIF),
    "png": PNG,
    "png-rgba": RGBA_PNG,
    "png-palette": PALETTE_PNG,
    "png-key": encode(scene(), "PNG", transparency=(0, 0, 0)),
    "png-16": encode(scene().convert("I").convert("I;16"), "PNG"),
    "png-moving": moving("PNG"),
    "gif": encode(scene(), "GIF"),
    "gif-moving": moving("GIF"),
    "webp": encode(scene(), "WEBP"),
    "webp-lossless": encode(scene(), "WEBP", lossless=True),
    "webp-alpha": encode(scene().convert("RGBA").rotate(45), "WEBP"),
    "webp-moving": moving("WEBP"),
    "bmp": encode(scene(), "BMP"),
    "bmp-palette": encode(scene().quantize(16), "BMP"),
    "tiff": encode(scene(), "TIFF"),
    "tiff-lzw": encode(scene(), "TIFF", compression="tiff_lzw"),
    "tiff-deflate": encode(scene(), "TIFF", compression="tiff_adobe_deflate"),
    "tiff-jpeg": encode(scene(), "TIFF", compression="jpeg"),
    "tiff-palette": encode(scene().quantize(16), "TIFF"),
    "tiff-fax": encode(scene().convert("1"), "TIFF", compression="group4"),
    "avif": encode(scene(), "AVIF", exif=EXIF),
    "avif-alpha": encode(scene().convert("RGBA").rotate(45), "AVIF"),
}


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE.keys())
def test_whole_picture_is_stored(data: bytes) -> None:
    """What is damaged below is good before."""
    assert isinstance(make_picture(data, OPTIONS), Picture)


# --- No picture

BODIES: dict[str, tuple[bytes, Reason, str]] = {
    "no-byte": (b"", Reason.EMPTY_BODY, ""),
    "web-page": (b"<!doctype html><title>404</title>", Reason.NOT_A_PICTURE, "it looks like a web page"),
    "json": (b'{"error": "gone"}', Reason.NOT_A_PICTURE, "it looks like JSON"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", Reason.NOT_A_PICTURE, "it looks like SVG"),
    "text": (b"Bad hotlink", Reason.NOT_A_PICTURE, "it looks like text"),
    "six-bytes-of-gif": (b"GIF89a", Reason.BROKEN_PICTURE, "it is cut: its structure leads past its end"),
    "eight-bytes-of-png": (b"\x89PNG\r\n\x1a\n", Reason.BROKEN_PICTURE, "it is cut: its structure leads past its end"),
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", Reason.UNSUPPORTED_FORMAT, "HEIC"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", Reason.UNSUPPORTED_FORMAT, "PostScript"),
    "icon": (encode(scene(), "ICO"), Reason.UNSUPPORTED_FORMAT, "ICO"),
    "jpeg-2000": (encode(scene(), "JPEG2000"), Reason.UNSUPPORTED_FORMAT, "JPEG 2000"),
    "portable-pixmap": (encode(scene(), "PPM"), Reason.UNSUPPORTED_FORMAT, "PNM"),
}


@pytest.mark.parametrize(("data", "reason", "detail"), BODIES.values(), ids=BODIES.keys())
def test_body_that_is_no_readable_picture_fails_with_its_reason(data: bytes, reason: Reason, detail: str) -> None:
    """Empty, not a picture, a kind that is not read and a cut picture are different reasons."""
    assert Failure(reason=reason, detail=detail) == make_picture(data, OPTIONS)


def test_label_does_not_count_and_a_tail_is_cut_off() -> None:
    """A picture is what its bytes say, and 4 KB behind the end of a JPEG change nothing."""
    png_body, jpeg_body = make_picture(PNG, OPTIONS), make_picture(BASELINE + b"<html>" * 700, OPTIONS)
    assert isinstance(png_body, Picture)
    assert isinstance(jpeg_body, Picture)
    assert ("PNG", "JPEG") == (png_body.original_format, jpeg_body.original_format)
    assert jpeg_body == make_picture(BASELINE, OPTIONS)


UNREAD_KINDS: dict[str, tuple[bytes, str]] = {
    "tiff-float": (encode(Image.new("F", (9, 9), 0.5), "TIFF"), "mode F"),
    "tiff-32": (encode(Image.new("I", (9, 9), 70_000), "TIFF"), "mode I"),
    "tiff-lab": (encode(Image.new("LAB", (9, 9)), "TIFF"), "mode LAB"),
    "tiff-16-inverted": (tiff_with(262, 0, Image.new("I;16", (9, 9))), "16-bit grey, white is zero"),
    "tiff-12": (tiff_with(258, 12, Image.new("I;16", (9, 9))), "12-bit grey"),
    "tiff-reduced": (encode(scene(), "TIFF", tiffinfo={254: 1}), "its first picture is a reduced one"),
    "tiff-unknown-depth": (tiff_with(258, 7, Image.new("L", (9, 9))), "unknown pixel mode"),
    "jpeg-12": (BASELINE.replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c"), "12-bit"),
    "jpeg-lossless": (BASELINE.replace(b"\xff\xc0\0\x11", b"\xff\xc3\0\x11"), "lossless"),
}


@pytest.mark.parametrize(("data", "detail"), UNREAD_KINDS.values(), ids=UNREAD_KINDS.keys())
def test_samples_without_a_stated_meaning_are_refused(data: bytes, detail: str) -> None:
    """Where Pillow would show something else than the picture, or nothing says what is white, it is not guessed."""
    failure = make_picture(data, OPTIONS)
    assert isinstance(failure, Failure)
    assert Reason.UNSUPPORTED_FORMAT is failure.reason
    assert detail in failure.detail


# --- Cut and damaged

BROKEN: dict[str, bytes] = {
    "jpeg-half-baseline": BASELINE[: len(BASELINE) // 2],
    "jpeg-half-progressive": PROGRESSIVE[: len(PROGRESSIVE) // 2],
    "jpeg-first-scan-only": PROGRESSIVE[:SECOND_SCAN],
    "jpeg-up-to-the-last-scan": PROGRESSIVE[: PROGRESSIVE.rindex(b"\xff\xda")],
    "jpeg-no-end-mark": BASELINE[:-2],
    "jpeg-no-end-mark-but-a-tail": BASELINE[:-2] + bytes(100),
    "jpeg-header-only": BASELINE[:200],
    "jpeg-no-scan": BASELINE[: BASELINE.index(b"\xff\xda")] + b"\xff\xd9",
    "jpeg-bad-marker-in-scan": BASELINE[:-60] + b"\xff\x5f" + BASELINE[-58:],
    "jpeg-two-starts": BASELINE[:2] + BASELINE,
    "png-half": PNG[: len(PNG) // 2],
    "png-no-end": PNG[:-12],
    "png-bad-data": flip(PNG, -40),
    "png-bad-sum": flip(PNG, -14),
    "png-bad-header-sum": flip(PNG, 30, 1),
    "png-no-data": png(9, 9, 8, 2),
    "png-no-palette": png(2, 2, 8, 3, pixels(bytes(6))),
    "png-data-too-short": png(9, 9, 8, 0, png_chunk(b"IDAT", zlib.compress(bytes(90))[:-6])),
    "png-signature-by-text-mode": PNG.replace(b"\r\n", b"\n", 1),
    "png-no-size": png(0, 9, 8, 0, pixels(bytes(9))),
    "png-no-such-depth": png(9, 9, 3, 0, pixels(bytes(90))),
    "gif-no-frame": WHOLE["gif"][: 13 + 3 * 256] + b";",
    "gif-half-first-frame": WHOLE["gif-moving"][: 13 + 3 * 256 + 700],
    "webp-half": WHOLE["webp"][: len(WHOLE["webp"]) // 2],
    "webp-half-lossless": WHOLE["webp-lossless"][: len(WHOLE["webp-lossless"]) // 2],
    "webp-half-moving": WHOLE["webp-moving"][: len(WHOLE["webp-moving"]) // 2],
    "bmp-half": WHOLE["bmp"][: len(WHOLE["bmp"]) // 2],
    "tiff-half": WHOLE["tiff"][: len(WHOLE["tiff"]) // 2],
    "tiff-empty-directory": b"II*\0\x08\0\0\0\0\0\0\0\0\0",
    "tiff-directory-outside": b"II*\0\xff\xff\xff\x7f",
    "tiff-strips-outside": tiff_with(273, 0xFFFF, scene()),
    "tiff-tag-outside": WHOLE["tiff"].replace(TIFF_BITS, TIFF_BITS[:8] + b"\xff\xff\xff\x7f"),
    "tiff-no-such-compression": tiff_with(259, 4_711, scene()),
    "avif-half": WHOLE["avif"][: len(WHOLE["avif"]) // 2],
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("options", [OPTIONS, ImageOptions(resize=Resize.NONE)], ids=["squash", "none"])
def test_cut_or_damaged_picture_fails_as_broken(data: bytes, options: ImageOptions) -> None:
    """Half a picture is a failure that says in one line what is wrong, not a picture that is half grey."""
    failure = make_picture(data, options)
    assert isinstance(failure, Failure)
    assert Reason.BROKEN_PICTURE is failure.reason
    assert 0 < len(failure.detail) <= 230
    assert failure.detail.isprintable()
    assert "Warning" not in failure.detail
    assert "AssertionError" not in failure.detail


def test_damage_of_the_table_is_where_it_is_meant() -> None:
    """No case of the table is a whole picture by mistake."""
    assert not set(BROKEN.values()) & set(WHOLE.values())


@pytest.mark.parametrize("name", sorted(WHOLE.keys() - {"gif-moving"}))
def test_picture_cut_anywhere_is_never_stored(name: str) -> None:
    """However many bytes are lost from the end, the picture fails; only the end mark of a GIF may be missing."""
    data = WHOLE[name]
    for length in range(1, len(data) - (name == "gif"), max(1, len(data) // 300)):
        assert not isinstance(make_picture(data[:length], OPTIONS), Picture), length


def test_gif_cut_behind_its_first_frame_is_whole() -> None:
    """The first frame is what counts: what is lost behind it is not missed, what is lost of it is."""
    data = WHOLE["gif-moving"]
    second_frame = data.index(b"\0\x21\xf9\x04", data.index(b",", 13 + 3 * 256)) + 1
    whole = make_picture(data, OPTIONS)
    assert whole == make_picture(data[: second_frame + 40], OPTIONS) == make_picture(data[:second_frame], OPTIONS)
    assert not isinstance(make_picture(data[: second_frame - 2], OPTIONS), Picture)


# --- Metadata that would harm

BOMB = zlib.compress(bytes(2**21))
METADATA: dict[str, bytes] = {
    "png-text-bomb": png(1, 1, 8, 2, *[png_chunk(b"zTXt", b"key\0\0" + BOMB)] * 3, pixels(bytes([0, 9, 8, 7]))),
    "png-profile-bomb": png(1, 1, 8, 2, png_chunk(b"iCCP", b"name\0\0" + BOMB), pixels(bytes([0, 9, 8, 7]))),
    "png-profile-damaged": png(1, 1, 8, 2, png_chunk(b"iCCP", b"name\0\x01xx"), pixels(bytes([0, 9, 8, 7]))),
    "png-short-gamma": png(1, 1, 8, 2, png_chunk(b"gAMA", b"\0"), pixels(bytes([0, 9, 8, 7]))),
    "png-bad-sum-of-text": png(1, 1, 8, 2, png_chunk(b"tEXt", b"a\0b")[:-1] + b"?", pixels(bytes([0, 9, 8, 7]))),
    "png-animation-without-frames": png(1, 1, 8, 2, png_chunk(b"acTL", bytes(8)), pixels(bytes([0, 9, 8, 7]))),
    "png-chunk-of-no-name": png(1, 1, 8, 2, png_chunk(b"\xff\xfe\0 ", b""), pixels(bytes([0, 9, 8, 7]))),
    "jpeg-multi-picture-damaged": BASELINE[:2] + b"\xff\xe2\0\x10MPF\0" + b"\xff" * 10 + BASELINE[2:],
    "jpeg-photoshop-damaged": BASELINE[:2] + b"\xff\xed\0\x14Photoshop 3.0\0" + b"8BIM" + BASELINE[2:],
    "jpeg-profile-parts-missing": BASELINE[:2] + b"\xff\xe2\0\x11ICC_PROFILE\0\x02\x09x" + BASELINE[2:],
    "tiff-text-outside": encode(scene(), "TIFF", description="x" * 99).replace(
        struct.pack("<HHI", 270, 2, 100), struct.pack("<HHI", 270, 2, 2**31)
    ),
    "avif-exif-damaged": WHOLE["avif"].replace(EXIF[6:14], b"\xff" * 8),
}


@pytest.mark.parametrize("data", METADATA.values(), ids=METADATA.keys())
def test_harmful_metadata_does_not_matter(data: bytes) -> None:
    """Damaged or exploding metadata fails no picture, and raises no warning (here warnings are errors)."""
    assert isinstance(make_picture(data, OPTIONS), Picture)


def test_gif_of_very_many_comments_and_frames_is_quick() -> None:
    """50,000 comments before the first frame, and 10,000 frames behind it, are passed over."""
    data = WHOLE["gif"]
    start = data.index(b",", 13 + 3 * 256)
    frame = data[start:-1]
    body = data[:start] + b"!\xfe\x04text\0" * 50_000 + frame + frame * 10_000 + b";"
    assert make_picture(data, OPTIONS) == make_picture(body, OPTIONS)


# --- Limits


def test_pixels_are_counted_before_decoding() -> None:
    """As many pixels as the limit are decoded; one more is refused, whatever the format, from the header."""
    for name in ("jpeg", "png", "gif", "webp", "bmp", "tiff", "avif"):
        at_limit, below = (make_picture(WHOLE[name], ImageOptions(max_pixels=48 * 36 - less)) for less in (0, 1))
        assert isinstance(at_limit, Picture)
        assert below == Failure(reason=Reason.TOO_MANY_PIXELS, detail="48 x 36 pixels; at most 1727 are decoded")


HUGE = {
    "png": png(60_000, 60_000, 8, 2, pixels(bytes(9))),
    "jpeg": BASELINE.replace(struct.pack(">HH", 36, 48), struct.pack(">HH", 60_000, 60_000)),
    "gif": WHOLE["gif"][:6] + struct.pack("<HH", 60_000, 60_000) + WHOLE["gif"][10:],
    "gif-frame": WHOLE["gif"].replace(b"\0\0\0\0" + struct.pack("<HH", 48, 36), b"\0\0\0\0" + b"\xff" * 4),
    "bmp": WHOLE["bmp"].replace(struct.pack("<ii", 48, 36), struct.pack("<ii", 60_000, 60_000)),
    "tiff": tiff_with(256, 60_000, scene(3, 60_000)),
    "webp": WHOLE["webp-moving"].replace(b"\x2f\0\0\x23\0\0", b"\xff\xff\0\xff\x7f\0", 1),
}


@pytest.mark.parametrize("data", HUGE.values(), ids=HUGE.keys())
def test_huge_header_is_refused_without_memory(data: bytes) -> None:
    """A few bytes that declare gigapixels are a failure at once."""
    failure = make_picture(data, ImageOptions(resize=Resize.NONE))
    assert isinstance(failure, Failure)
    assert Reason.TOO_MANY_PIXELS is failure.reason


def test_limits_of_the_process_are_not_touched_and_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's own limit neither warns nor fails a picture (TIFF apart), and importing the adapter left it as it was.

    Nor does the adapter switch on what tolerates truncation.
    """
    assert 89_478_485 == Image.MAX_IMAGE_PIXELS
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 900)
    for name in ("jpeg", "png", "gif", "webp", "bmp", "avif"):
        assert isinstance(make_picture(WHOLE[name], OPTIONS), Picture), name
    failure = make_picture(WHOLE["tiff"], OPTIONS)
    assert Failure(reason=Reason.TOO_MANY_PIXELS, detail="48 x 36 pixels; at most 900 are decoded") == failure
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    failure = make_picture(WHOLE["webp"], OPTIONS)
    assert isinstance(failure, Failure)
    assert Reason.TOO_MANY_PIXELS is failure.reason


TOO_LONG = {Encode.JPEG: 65_501, Encode.WEBP: 16_384}


@pytest.mark.parametrize(("output", "side"), TOO_LONG.items(), ids=TOO_LONG.keys())
def test_side_that_the_output_cannot_hold_is_refused(output: Encode, side: int) -> None:
    """A picture left at its size that the output format cannot hold is a failure that names the limit."""
    data = encode(Image.new("RGB", (side, 1)), "PNG")
    failure = make_picture(data, ImageOptions(resize=Resize.NONE, encode=output))
    detail = f"{side} x 1 pixels; a {output.value.upper()} has at most {side - 1} a side"
    assert Failure(reason=Reason.TOO_MANY_PIXELS, detail=detail) == failure
    assert isinstance(make_picture(data, ImageOptions(resize=Resize.KEEP, encode=output)), Picture)


def test_jpeg_of_very_many_scans_is_refused() -> None:
    """Hundreds of scans that add nothing cost a decoder the time of as many pictures."""
    start = PROGRESSIVE.rindex(b"\xff\xda")
    scan = PROGRESSIVE[start:-2]
    assert isinstance(make_picture(PROGRESSIVE[:start] + scan + b"\xff\xd9", OPTIONS), Picture)
    failure = make_picture(PROGRESSIVE[:start] + scan * 600 + b"\xff\xd9", OPTIONS)
    assert Failure(reason=Reason.BROKEN_PICTURE, detail="more than 500 scans") == failure


# --- Anything at all

SEEDS = list(WHOLE.values())


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Take a whole picture; overwrite, cut out, double or add a few bytes of it, or join it with another."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        # Headers are where the code is, so that half of the faults go there.
        at = draw(st.integers(0, len(data)) | st.integers(0, min(len(data), 120)))
        count = draw(st.integers(0, 40))
        piece = draw(
            st.binary(max_size=12)
            | st.just(data[at : at + count] * 2)
            | st.sampled_from([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\xff\xd9", b"\xff\xda", b"IEND"])
            | st.sampled_from(SEEDS)
        )
        data = data[:at] + piece + data[at + count :]
    return data


@settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    data=mutated() | st.binary(max_size=200),
    resize=st.sampled_from(Resize),
    output=st.sampled_from(Encode),
    size=st.integers(1, 60),
)
def test_no_bytes_make_it_raise(data: bytes, resize: Resize, output: Encode, size: int) -> None:
    """Whatever the bytes, there is a readable RGB picture of the recorded size, or a failure of one line.

    A warning, which is an error here, would show in the detail.
    """
    options = ImageOptions(size_px=size, resize=resize, encode=output, max_pixels=10**6)
    made = make_picture(data, options)
    if isinstance(made, Failure):
        assert made.detail.isprintable()
        assert "Warning" not in made.detail
        return
    with Image.open(io.BytesIO(made.data)) as image:
        image.load()
        assert (made.format, "RGB", (made.width, made.height)) == (image.format, image.mode, image.size)
    assert make_picture(data, options) == made
