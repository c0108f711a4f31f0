"""Archives looked through, many at once: it is waiting for the disk, header by header."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from evenshard.adapters.archive import scan
from evenshard.core.errors import DamagedArchiveError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenshard.core.texts import Archive

MAX_SCANS: Final = 16
"""Archives that are looked through at once."""


def scan_all(paths: Sequence[str]) -> list[Archive | Exception]:
    """Look through archives; of one that cannot be, gives the error: see `scan`."""
    with ThreadPoolExecutor(MAX_SCANS) as pool:
        return list(pool.map(_scan, paths))


def _scan(path: str) -> Archive | Exception:
    try:
        return scan(path)
    except (DamagedArchiveError, OSError, ValueError) as error:  # ValueError: such as a name with a NUL in it
        return error


def told(error: Exception) -> str:
    """Say why an archive cannot be looked through."""
    if isinstance(error, DamagedArchiveError):
        return f"not a plain tar: {error}"
    return str(getattr(error, "strerror", None) or error)
