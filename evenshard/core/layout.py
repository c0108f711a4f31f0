"""Names of all objects in a data set folder, and what they tell.

A chunk's name carries generation, slice, number inside the slice and a short content hash, so that
two attempts at one slice never overwrite each other: the receipt decides which one counts.
"""

from __future__ import annotations

import re
from typing import Final

INDEX: Final = "index.json"
MANIFEST: Final = "manifest.json"
STATE: Final = ".evenshard/"
PLANS: Final = STATE + "plans/"
RECEIPTS: Final = STATE + "receipts/"
OUTCOMES: Final = STATE + "outcomes/"
GENERATIONS: Final = STATE + "generations/"
CHUNKS: Final = "chunk-g"
HASH_DIGITS: Final = 12
"""48 bits of SHA-256 in a name: enough to tell attempts apart; checksums in receipts are whole."""


def chunk_name(*, generation: int, slice_index: int, number: int, sha256: str) -> str:
    """Name a chunk: flat, as readers want it, and ascending in row order."""
    return f"{chunks_prefix(generation)}s{slice_index:06d}-{number:03d}-{sha256[:HASH_DIGITS]}.bin"


def chunks_prefix(generation: int) -> str:
    """Begin the names of one generation's chunks."""
    return f"{CHUNKS}{generation:04d}-"


def outcomes_name(*, generation: int, slice_index: int, sha256: str) -> str:
    """Name the outcomes part of a slice."""
    return f"{outcomes_prefix(generation)}s{slice_index:06d}-{sha256[:HASH_DIGITS]}.parquet"


def outcomes_prefix(generation: int) -> str:
    """Begin the names of one generation's outcomes."""
    return f"{OUTCOMES}g{generation:04d}-"


def receipts_prefix(generation: int) -> str:
    """Name the folder of one generation's receipts."""
    return f"{RECEIPTS}g{generation:04d}/"


def receipt_name(*, generation: int, slice_index: int) -> str:
    """Name the receipt of a slice: one name per slice, so that only one attempt can win it."""
    return f"{receipts_prefix(generation)}s{slice_index:06d}.json"


def slice_index_in(receipt: str) -> int:
    """Read the slice's position back from a receipt's name; -1 if it is no receipt's name."""
    found = re.fullmatch(r".*/s(\d{6,})\.json", receipt)
    return int(found.group(1)) if found else -1


def generation_in(name: str) -> int:
    """Read the generation back from the name of a kept manifest, or of any object that carries one; 0 if none does."""
    found = re.search(r"(?:^|[/-])g(\d{4,})[-./]", name)
    return int(found.group(1)) if found else 0


def plan_name(generation: int) -> str:
    """Name the stored plan of a generation: one name, so that only one plan can claim it."""
    return f"{PLANS}g{generation:04d}.json"


def generation_name(generation: int) -> str:
    """Name the kept manifest of a generation."""
    return f"{GENERATIONS}g{generation:04d}.json"
