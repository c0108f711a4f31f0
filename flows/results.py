"""What a run gives back: plain numbers and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenshard.core.manifest import Manifest


def summary(manifest: Manifest) -> dict[str, Any]:
    """Give what was published as plain numbers and names."""
    counts = manifest.counts
    return {
        "generation": manifest.generation,
        "fingerprint": manifest.parts[-1].fingerprint,
        "planned": counts.planned,
        "stored": counts.stored,
        "filtered": dict(counts.filtered),
        "failed": dict(counts.failed),
        "left_out": {each.path: each.reason for each in manifest.left_out},
        "dropped": manifest.num_dropped,
        "rows_per_rank": list(manifest.rows_per_rank().values()),
        "slices": manifest.num_slices,
        "chunks": len(manifest.chunks),
        "bytes": manifest.num_bytes,
    }
