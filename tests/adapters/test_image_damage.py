"""Pictures that are cut or damaged anywhere, and metadata that would harm: nothing is ever raised, or half stored."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from evenshard.adapters.image import Picture, make_picture
from evenshard.core.outcome import Failure
from evenshard.core.recipe import Encode, ImageOptions, Resize
from tests.support.mutations import EXIF, every_kind
from tests.support.picture_files import png_chunk, png_file, png_pixels
from tests.support.pictures import saved, scene

OPTIONS = ImageOptions(size_px=24)
SCENE = scene(48, 36)


def dot(*chunks: bytes) -> bytes:
    """Write a PNG of one pixel, with chunks before its data."""
    return png_file((1, 1), 8, 2, *chunks, png_pixels(bytes([0, 9, 8, 7])))


WHOLE = every_kind()
BASELINE = WHOLE["jpeg"]


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE.keys())
def test_whole_picture_is_stored(data: bytes) -> None:
    """What is damaged below is good before."""
    assert isinstance(make_picture(data, OPTIONS), Picture)


# --- Cut


@pytest.mark.parametrize("name", sorted(WHOLE.keys() - {"gif-moving", "avif-moving"}))
def test_picture_cut_anywhere_is_never_stored(name: str) -> None:
    """However many bytes are lost from the end, the picture fails; only the end mark of a GIF may be missing."""
    data = WHOLE[name]
    for length in range(1, len(data) - name.startswith("gif"), max(1, len(data) // 300)):
        assert not isinstance(make_picture(data[:length], OPTIONS), Picture), length


def test_avif_cut_behind_its_still_picture_is_whole() -> None:
    """The still picture of a moving one stands first in it, and is stored from there on, not before."""
    data = WHOLE["avif-moving"]
    whole = make_picture(data, OPTIONS)
    stored_from = min(
        length for length in range(len(data)) if isinstance(make_picture(data[:length], OPTIONS), Picture)
    )
    assert data.index(b"mdat") + 100 < stored_from < len(data) - 100
    assert all(whole == make_picture(data[:length], OPTIONS) for length in range(stored_from, len(data), 7))


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
    "png-text-bomb": dot(*[png_chunk(b"zTXt", b"key\0\0" + BOMB)] * 3),
    "png-profile-bomb": dot(png_chunk(b"iCCP", b"name\0\0" + BOMB)),
    "png-profile-damaged": dot(png_chunk(b"iCCP", b"name\0\x01xx")),
    "png-short-gamma": dot(png_chunk(b"gAMA", b"\0")),
    "png-bad-sum-of-text": dot(png_chunk(b"tEXt", b"a\0b")[:-1] + b"?"),
    "png-animation-without-frames": dot(png_chunk(b"acTL", bytes(8))),
    "png-chunk-of-no-name": dot(png_chunk(b"\xff\xfe\0 ", b"")),
    "jpeg-multi-picture-damaged": BASELINE[:2] + b"\xff\xe2\0\x10MPF\0" + b"\xff" * 10 + BASELINE[2:],
    "jpeg-photoshop-damaged": BASELINE[:2] + b"\xff\xed\0\x14Photoshop 3.0\0" + b"8BIM" + BASELINE[2:],
    "jpeg-profile-parts-missing": BASELINE[:2] + b"\xff\xe2\0\x11ICC_PROFILE\0\x02\x09x" + BASELINE[2:],
    "tiff-text-outside": saved(SCENE, "TIFF", description="x" * 99).replace(
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
