"""evenshard: tables of links and archives of text into verified, training-ready chunk data sets.

The engine, which knows no orchestrator; what runs it is in `flows`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from evenshard.chunk_loader import ChunkLoader
    from evenshard.chunk_reader import ChunkReader
    from evenshard.clients import download_image_with_retry
    from evenshard.loader import OpenWebTextLoader
    from evenshard.mixing import shuffle, take

_HOMES: Final = {
    "ChunkLoader": "evenshard.chunk_loader",
    "ChunkReader": "evenshard.chunk_reader",
    "OpenWebTextLoader": "evenshard.loader",
    "download_image_with_retry": "evenshard.clients",
    "shuffle": "evenshard.mixing",
    "take": "evenshard.mixing",
}

__all__ = ["ChunkLoader", "ChunkReader", "OpenWebTextLoader", "download_image_with_retry", "shuffle", "take"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that the command line need not wait for all of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
