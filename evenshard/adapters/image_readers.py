"""Pillow's readers, one for each format, free of the switches that a process may have set.

Pillow keeps switches in its modules: `ImageFile.LOAD_TRUNCATED_IMAGES` makes half a picture count as a whole one,
`Image.MAX_IMAGE_PIXELS` refuses what `ImageOptions` allows, and more. Whoever shares the process may set them, a
transform of one's own for instance, and many programs do. What is stored must not depend on it, and setting them
back for a moment would change it for the others. So the few functions that look at a switch are copied with values
of their own.

`Image.open` is not used: it would offer the bytes to other readers, and check the size against the process's limit.
"""

from __future__ import annotations

from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
    features,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias, TypeVar

    _Method = TypeVar("_Method", bound=Callable[..., Any])
    _Reader: TypeAlias = type[ImageFile.ImageFile]

_BLOCK_BYTES: Final = 65_536
"""Pillow's own, by which it reads."""


def _pinned(method: _Method, **values: object) -> _Method:
    """Copy a function so that it finds these values under the names of its module."""
    code = cast("FunctionType", method)
    copy = FunctionType(code.__code__, code.__globals__ | values, code.__name__, code.__defaults__, code.__closure__)
    copy.__kwdefaults__ = code.__kwdefaults__
    return cast("_Method", copy)


def _unlimited(*_: object, **__: object) -> None:
    """Stand in for the check of the size, which was checked before."""


_FILES: Final = SimpleNamespace(**vars(ImageFile) | {"LOAD_TRUNCATED_IMAGES": False})
_IMAGES: Final = SimpleNamespace(**vars(Image) | {"_decompression_bomb_check": _unlimited})


class _Strict(ImageFile.ImageFile):
    """What all readers share: a picture is whole, or an error."""

    __init__ = _pinned(ImageFile.ImageFile.__init__, MAXBLOCK=_BLOCK_BYTES)
    load = _pinned(ImageFile.ImageFile.load, LOAD_TRUNCATED_IMAGES=False)


class _Jpeg(JpegImagePlugin.JpegImageFile, _Strict):
    load_read = _pinned(JpegImagePlugin.JpegImageFile.load_read, ImageFile=_FILES)


class _Png(PngImagePlugin.PngImageFile, _Strict):
    """Its look-outs for the switch are for chunks that `trim` has checked."""


class _Gif(GifImagePlugin.GifImageFile, _Strict):
    _seek = _pinned(
        GifImagePlugin.GifImageFile._seek,  # noqa: SLF001 - see the module
        LOADING_STRATEGY=GifImagePlugin.LoadingStrategy.RGB_AFTER_FIRST,
        Image=_IMAGES,
    )
    load_end = _pinned(
        GifImagePlugin.GifImageFile.load_end, LOADING_STRATEGY=GifImagePlugin.LoadingStrategy.RGB_AFTER_FIRST
    )


class _Bmp(BmpImagePlugin.BmpImageFile, _Strict):
    _bitmap = _pinned(BmpImagePlugin.BmpImageFile._bitmap, USE_RAW_ALPHA=False)  # noqa: SLF001 - see the module


class _Tiff(TiffImagePlugin.TiffImageFile, _Strict):
    _setup = _pinned(TiffImagePlugin.TiffImageFile._setup, READ_LIBTIFF=False)  # noqa: SLF001 - see the module
    load_prepare = _pinned(TiffImagePlugin.TiffImageFile.load_prepare, Image=_IMAGES)


class _Webp(WebPImagePlugin.WebPImageFile, _Strict):
    _open = _pinned(WebPImagePlugin.WebPImageFile._open, Image=_IMAGES)  # noqa: SLF001 - see the module

    def load_prepare(self) -> None:
        """Free the decoder's two canvases, before the picture takes as much again."""
        self._decoder = None
        super().load_prepare()


class _Avif(AvifImagePlugin.AvifImageFile, _Strict):
    _open = _pinned(
        AvifImagePlugin.AvifImageFile._open,  # noqa: SLF001 - see the module
        DECODE_CODEC_CHOICE="auto",
        _get_default_max_threads=lambda: 1,  # the machine's cores are busy with other pictures
    )

    def load_prepare(self) -> None:
        """Free the decoder's frames, before the picture takes as much again."""
        self._decoder = None
        super().load_prepare()


READERS: Final[dict[str, _Reader]] = {
    "JPEG": _Jpeg,
    "PNG": _Png,
    "GIF": _Gif,
    "BMP": _Bmp,
    "TIFF": _Tiff,
    **({"WEBP": _Webp} if features.check("webp") else {}),
    **({"AVIF": _Avif} if features.check("avif") else {}),
}
"""The one reader that each format may reach."""
