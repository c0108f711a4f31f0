"""Pillow's switches belong to the whole process: ours to leave alone, and somebody else's to set without effect."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    PngImagePlugin,
    TiffImagePlugin,
)

from evenshard.adapters.image import make_picture
from evenshard.core.recipe import Encode, ImageOptions, Resize
from tests.adapters.test_image_table import DEFECTS, STILL_WHOLE, WHOLE
from tests.support.pictures import jpeg

if TYPE_CHECKING:
    from types import ModuleType

    from evenshard.adapters.image import Picture
    from evenshard.core.outcome import Failure

BODIES = [make() for make, *_ in WHOLE.values()]
BODIES += [data for data, *_ in DEFECTS.values()] + [data for data, _ in STILL_WHOLE.values()]
LARGE = jpeg(400, 300)
"""Whose PNG is longer than the blocks that Pillow writes."""
OPTIONS = [ImageOptions(size_px=24), ImageOptions(resize=Resize.NONE, encode=Encode.PNG)]

SWITCHES: dict[str, tuple[ModuleType, str, Any]] = {
    "truncation-is-tolerated": (ImageFile, "LOAD_TRUNCATED_IMAGES", True),
    "hardly-a-pixel-is-allowed": (Image, "MAX_IMAGE_PIXELS", 9),
    "any-number-of-pixels-is-allowed": (Image, "MAX_IMAGE_PIXELS", None),
    "longer-blocks": (ImageFile, "MAXBLOCK", 2**20),
    "shorter-blocks": (ImageFile, "MAXBLOCK", 2**12),
    "shorter-safe-blocks": (ImageFile, "SAFEBLOCK", 1_000),
    "gif-always-as-rgb": (GifImagePlugin, "LOADING_STRATEGY", GifImagePlugin.LoadingStrategy.RGB_ALWAYS),
    "gif-as-rgb-later": (
        GifImagePlugin,
        "LOADING_STRATEGY",
        GifImagePlugin.LoadingStrategy.RGB_AFTER_DIFFERENT_PALETTE_ONLY,
    ),
    "bmp-fourth-byte-is-alpha": (BmpImagePlugin, "USE_RAW_ALPHA", True),
    "tiff-always-by-libtiff": (TiffImagePlugin, "READ_LIBTIFF", True),
    "avif-by-another-decoder": (AvifImagePlugin, "DECODE_CODEC_CHOICE", "aom"),
    "avif-by-many-threads": (AvifImagePlugin, "DEFAULT_MAX_THREADS", 7),
    "png-without-text": (PngImagePlugin, "MAX_TEXT_MEMORY", 0),
}


def all_made() -> list[Picture | Failure]:
    """Make every picture of the table, and every defect."""
    return [make_picture(body, options) for options in OPTIONS for body in [*BODIES, LARGE]]


@pytest.fixture(scope="module")
def usual() -> list[Picture | Failure]:
    """What is made when nobody has touched a switch."""
    return all_made()


@pytest.mark.parametrize(("module", "name", "value"), SWITCHES.values(), ids=SWITCHES.keys())
def test_switch_of_the_process_changes_nothing_that_is_made(
    usual: list[Picture | Failure], monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, value: object
) -> None:
    """Every picture, failure and detail is the same, to the byte, whatever somebody else has set."""
    assert getattr(module, name) != value
    monkeypatch.setattr(module, name, value)
    assert usual == all_made()


def test_switches_work_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets a switch has what it does: half a picture loads, and the limit of pixels limits."""
    cut = io.BytesIO(LARGE[:-2_000])
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    Image.open(cut).load()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 9)
    with pytest.raises(Image.DecompressionBombError):
        Image.open(cut)


STATE = "; ".join(
    f"seen.append(repr({module.__name__.split('.')[-1]}.{name}))" for module, name, _ in SWITCHES.values()
)
PROGRAM = f"""
import io, sys
from PIL import AvifImagePlugin, BmpImagePlugin, GifImagePlugin, Image, ImageFile, PngImagePlugin, TiffImagePlugin
seen = []; {STATE}
before, seen = seen, []
from evenshard.adapters.image import make_picture
from evenshard.core.recipe import ImageOptions
for kind in ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF"):
    file = io.BytesIO()
    Image.new("RGB", (9, 9)).save(file, kind)
    for data in (file.getvalue(), file.getvalue()[:-9]):
        make_picture(data, ImageOptions())
{STATE}
sys.exit(0 if before == seen else f"{{before}} {{seen}}")
"""


def test_switches_of_the_process_are_left_alone() -> None:
    """Neither importing the adapter nor making pictures, whole or cut, sets one of them."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
