"""Pictures drawn for tests."""

from __future__ import annotations

import io

from PIL import Image


def scene(width: int = 160, height: int = 120) -> Image.Image:
    """Draw a picture with detail all over, so that a lost part is visible."""
    ramp = Image.linear_gradient("L").resize((width, height))
    return Image.merge(
        "RGB",
        (
            ramp,
            ramp.transpose(Image.Transpose.ROTATE_180),
            Image.effect_mandelbrot((width, height), (-2.0, -1.2, 1.0, 1.2), 60),
        ),
    )


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    """Give a picture as the bytes of a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def jpeg(width: int = 160, height: int = 120, **options: object) -> bytes:
    """Give the scene as a JPEG."""
    return saved(scene(width, height), "JPEG", **{"quality": 90, **options})
