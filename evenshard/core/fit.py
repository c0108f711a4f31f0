"""The sizes that a picture goes through, worked out before it is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenshard.core.recipe import ImageOptions, Resize

if TYPE_CHECKING:
    from evenshard.core.header import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Sizes on the way, in pixels, as the picture lies in its file.

    Args:
        scaled: after scaling, and cropping if `crops`.
        final: after padding.
        crops: whether only the middle square is scaled.
    """

    scaled: tuple[int, int]
    final: tuple[int, int]
    crops: bool = False


def fit_of(header: Header, options: ImageOptions) -> Fit:
    """Work out the sizes for a picture as it lies in its file: turning it later turns them alike."""
    width, height, side = header.width, header.height, options.size_px
    if options.resize in (Resize.SQUASH, Resize.CROP):
        return Fit(scaled=(side, side), final=(side, side), crops=options.resize is Resize.CROP)
    if options.resize is Resize.NONE or (options.resize is Resize.KEEP and max(width, height) <= side):
        return Fit(scaled=(width, height), final=(width, height))
    scale = side / max(width, height)
    scaled = max(1, round(width * scale)), max(1, round(height * scale))
    return Fit(scaled=scaled, final=(side, side) if options.resize is Resize.PAD else scaled)
