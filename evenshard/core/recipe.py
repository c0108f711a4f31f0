"""The recipe: every setting, beside the sources and the world, that changes the bytes of the output."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final

from evenshard.core.errors import OptionError

MAX_CHUNK_BYTES: Final = 2**32 - 1
"""Offsets inside a chunk are unsigned 32 bit, and readers do not guard against their overflow."""

MAX_WEBP_PX: Final = 16_383
"""A side of a WebP picture is stored in 14 bits."""


TEXTS: Final = "texts"
"""The transform of text archives: the plan's rows are members, and each document in them has an outcome."""


class Kind(StrEnum):
    """Type of one field of a sample; the values are the leaf ids of litdata's index.

    None has a stated meaning for each: see `NONE_VALUES`.
    """

    BYTES = "bytes"
    STR = "str"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    PIL = "pil"


NONE_VALUES: Final[dict[Kind, bytes | str | int | float]] = {
    Kind.BYTES: b"",
    Kind.STR: "",
    Kind.INT: -(2**63),
    Kind.FLOAT: float("nan"),
    Kind.BOOL: False,
    Kind.PIL: b"",
}
"""What is stored for a missing value: empty, not-a-number, or the smallest 64-bit integer, since a
zero could be a real label. A reader of a missing `pil` value gets no picture: transforms leave such rows out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One named, typed field of a sample."""

    name: str
    kind: Kind


class Container(StrEnum):
    """Shape of a sample as its reader gets it."""

    DICT = "dict"
    LIST = "list"
    TUPLE = "tuple"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSchema:
    """Fields of every sample of a data set, in order. Names matter for dicts only."""

    container: Container
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        """Refuse what no reader could tell apart."""
        names = [each.name for each in self.fields]
        if not names:
            raise OptionError("columns", "a sample needs at least one field")
        doubles = sorted({name for name in names if names.count(name) > 1})
        if doubles:
            raise OptionError("columns", f"two fields of a sample would be called {doubles[0]!r}; leave one out")


class Resize(StrEnum):
    """How a picture comes to its size."""

    SQUASH = "squash"
    """To size x size, without regard to its shape, as the first users of this job do."""
    CROP = "crop"
    """Short side to size, then the middle square."""
    PAD = "pad"
    """Long side to size, then filled up to a square with the background colour."""
    KEEP = "keep"
    """Long side to size, shape kept; smaller pictures are left as they are."""
    NONE = "none"
    """Left at its own size."""


class Encode(StrEnum):
    """File format that pictures are stored in."""

    JPEG = "jpeg"
    WEBP = "webp"
    PNG = "png"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """What is done to every picture.

    Args:
        size_px: length of the side that `resize` speaks of, 1 to 16,384.
        resize: how the picture comes to its size.
        encode: file format that it is stored in.
        quality: 1 to 100; for PNG it is of no effect.
        background: red, green, blue that transparent parts are laid on, and that `pad` fills with.
        min_side_px: pictures whose short side is below are left out; 0 for none.
        max_aspect: those whose long side is more times the short one are left out, 1 or more; None for none.
        min_area_px: those of fewer pixels are left out; 0 for none.
        max_pixels: pictures whose header declares more are refused before decoding.
        max_working_bytes: pictures that may need more memory than this are refused before decoding.
        max_body_bytes: answers longer than this are cut off and refused, before and after decompression.
    """

    size_px: int = 224
    resize: Resize = Resize.SQUASH
    encode: Encode = Encode.JPEG
    quality: int = 90
    background: tuple[int, int, int] = (255, 255, 255)
    min_side_px: int = 0
    max_aspect: float | None = None
    min_area_px: int = 0
    max_pixels: int = 89_478_485  # Pillow's own warning limit: a quarter GiB of RGB
    max_working_bytes: int = 400_000_000  # see tests/benchmarks/README.md
    max_body_bytes: int = 32_000_000

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_range("image_size", self.size_px, 1, 16_384)
        if self.encode is Encode.WEBP:
            _check_range("image_size", self.size_px, 1, MAX_WEBP_PX)
        _check_range("quality", self.quality, 1, 100)
        _check_range("min_side", self.min_side_px, 0, 2**31)
        _check_range("min_area", self.min_area_px, 0, 2**62)
        if self.max_aspect is not None and not 1 <= self.max_aspect < inf:
            raise OptionError("max_aspect", f"{self.max_aspect} is out of range; it must be 1 or more")
        _check_range("picture_memory", self.max_working_bytes, 1, 2**40)
        _check_range("max_pixels", self.max_pixels, 1, 2**31)
        _check_range("max_body_bytes", self.max_body_bytes, 1, 2**31)


class OnBadFile(StrEnum):
    """What becomes of a table in which files are bad."""

    FAIL = "fail"
    """Nothing is done; all bad files are named at once."""
    SKIP = "skip"
    """They are left out and recorded; rows in damaged parts of other files fail, each by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column that is read from the table, under its one target type.

    Args:
        name: exact name in the files.
        kind: what all files' types of it are cast to.
        required: whether a file without it is refused; else its values are None there.
    """

    name: str
    kind: Kind
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Every setting that changes the output.

    Args:
        columns: what is read of each row, in order.
        transform: `images`, `rows`, `texts`, or `package.module:callable`.
        transform_version: hash of the callable's source text and state; empty for the built-in ones.
        schema: declared shape of a sample, or None where a callable declares none.
        url_column, caption_column: columns of links and captions, for `images`.
        image: what is done to pictures, for `images` and for callables that ask.
        respect_opt_outs: whether bodies whose X-Robots-Tag asks not to be used are left out.
        chunk_bytes: samples are added to a chunk until the next would pass this, 1 to 2^32 - 1.
        file_format: name of the output format.
        libraries: evenshard and those whose other versions may write other bytes, as `name version`.
        on_bad_file: whether damaged files end the run, or their rows fail.
    """

    columns: tuple[Column, ...]
    transform: str = "images"
    transform_version: str = ""
    schema: SampleSchema | None = None
    url_column: str | None = None
    caption_column: str | None = None
    image: ImageOptions = field(default_factory=ImageOptions)
    respect_opt_outs: bool = True
    chunk_bytes: int = 64_000_000
    file_format: str = "litdata"
    libraries: tuple[str, ...] = ()
    on_bad_file: OnBadFile = OnBadFile.FAIL

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_range("chunk_bytes", self.chunk_bytes, 1, MAX_CHUNK_BYTES)

    @property
    def is_of_members(self) -> bool:
        """Say whether a planned row is a member of an archive, which says when it is read how many outcomes it has."""
        return self.transform == TEXTS


def _check_range(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise OptionError(option, f"{value} is out of range; it must be from {low} to {high}")
