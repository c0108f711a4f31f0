"""Samples that wait: all come back, few are in memory, and nothing is left."""

from __future__ import annotations

import tempfile
from random import Random
from typing import TYPE_CHECKING

from evenshard.adapters.spill import Spill, Spilled

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_samples_come_back_whatever_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit they go to a file that has no name and is gone at the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    random = Random(5)
    samples = [random.randbytes(random.randrange(200)) for _ in range(500)]
    with Spill(max_held_bytes=1_000) as spill:
        kept = [spill.keep(sample) for sample in samples]
        assert 1_000 >= sum(len(place) for place in kept if not isinstance(place, Spilled))
        assert [] == list(tmp_path.iterdir())
        order = random.sample(range(500), 500)
        assert [samples[at] for at in order] == [spill.take(kept[at]) for at in order]
        assert isinstance(spill.keep(b"x" * 900), bytes)
        assert isinstance(spill.keep(b"x" * 900), Spilled)


def test_no_file_is_made_when_all_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary slice touches no disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    with Spill() as spill:
        assert b"small" == spill.take(spill.keep(b"small"))
