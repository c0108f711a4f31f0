"""Which pictures are left out, or refused, from their header alone: by size, shape, pixels and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from evenshard.core.fit import fit_of
from evenshard.core.header import RGB_BYTES
from evenshard.core.outcome import Failure, Reason
from evenshard.core.recipe import Encode, ImageOptions, Resize

if TYPE_CHECKING:
    from evenshard.core.header import Header

_MAX_SIDE_PX: Final = {Encode.JPEG: 65_500, Encode.WEBP: 16_383, Encode.PNG: 2**31 - 1}
"""Source: libjpeg's JPEG_MAX_DIMENSION, libwebp's WEBP_MAX_DIMENSION, the PNG specification."""

_ENCODER_BYTES: Final = {Encode.JPEG: 5, Encode.WEBP: 36, Encode.PNG: 7}
"""Memory that an encoder takes for each pixel of noise, at the highest quality, its file included. Measured."""

_BODIES: Final = 3
"""How many times a body is held beside the body itself, at most: trimmed, and twice by libwebp's reader."""


def refuse(header: Header, options: ImageOptions, *, num_bytes: int) -> Failure | None:
    """Say from the header alone why a picture is not decoded, if it is not.

    Args:
        header: of the picture.
        options: what is asked for.
        num_bytes: length of the body.
    """
    hungry = refuse_hungry(header, options, num_bytes=num_bytes, is_kept=True)
    return _filter(header, options) or _exceed(header, options) or hungry


def refuse_hungry(header: Header, options: ImageOptions, *, num_bytes: int, is_kept: bool) -> Failure | None:
    """Refuse a picture that may need more memory than is given. See `working_bytes` for what it takes."""
    needed, most = working_bytes(header, options, num_bytes=num_bytes, is_kept=is_kept), options.max_working_bytes
    if needed <= most:
        return None
    detail = f"they may need {-(-needed // 1_000_000)} MB of memory; at most {most // 1_000_000} are given"
    return _refusal(Reason.TOO_MANY_PIXELS, header, detail)


def _filter(header: Header, options: ImageOptions) -> Failure | None:
    short, long = sorted((header.width, header.height))
    if short < options.min_side_px:
        return _refusal(Reason.TOO_SMALL, header, f"at least {options.min_side_px} a side are wanted")
    if short * long < options.min_area_px:
        return _refusal(Reason.TOO_SMALL, header, f"at least {options.min_area_px} in all are wanted")
    if options.max_aspect is not None and long / short > options.max_aspect:
        return _refusal(Reason.TOO_OBLONG, header, f"at most {options.max_aspect:g} to 1 are wanted")
    return None


def _exceed(header: Header, options: ImageOptions) -> Failure | None:
    if header.width * header.height > options.max_pixels:
        return _refusal(Reason.TOO_MANY_PIXELS, header, f"at most {options.max_pixels} are decoded")
    most = _MAX_SIDE_PX[options.encode]
    if max(fit_of(header, options).final) > most:
        return _refusal(Reason.TOO_MANY_PIXELS, header, f"a {options.encode.upper()} has at most {most} a side")
    return None


def _refusal(reason: Reason, header: Header, detail: str) -> Failure:
    width, height = header.upright
    return Failure(reason=reason, detail=f"{width} x {height} pixels; {detail}")


def working_bytes(header: Header, options: ImageOptions, *, num_bytes: int, is_kept: bool) -> int:
    """Estimate the memory that a picture takes at most beside its body until it is stored, in bytes.

    Left out is what `options` alone decide, the same for every picture: a stored one of a fixed size.

    Args:
        header: of the picture.
        options: what is done to it.
        num_bytes: length of the body.
        is_kept: whether its file is stored as it came, once it is decoded.
    """
    fit = fit_of(header, options)
    needed = header.decoding_bytes(fit.scaled)
    if options.resize in (Resize.NONE, Resize.KEEP) and not is_kept:
        num_pixels, num_stored = header.width * header.height, fit.final[0] * fit.final[1]
        is_copied = header.orientation > 1 or num_pixels != num_stored
        changing = RGB_BYTES * num_pixels + (2 * RGB_BYTES * num_stored if is_copied else 0)
        needed = max(needed, changing, (RGB_BYTES + _ENCODER_BYTES[options.encode]) * num_stored)
    return needed + _BODIES * num_bytes
