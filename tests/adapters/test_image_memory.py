"""What pictures take in memory, measured in processes of their own: by their headers' estimate, and never too much."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from evenshard.core.outcome import Reason
from tests.benchmarks.picture_memory import CASES, MAX_BEYOND_MB, measure, measure_in_turn

MAX_PROCESS_MB = 600
"""700, less the bodies that a worker may hold beside."""

HUNGRY = [
    "JPEG progressive CMYK",
    "PNG grey with alpha",
    "GIF of 40 bytes",
    "WebP lossy with alpha",
    "AVIF 4:4:4 with alpha",
    "AVIF of 64 x 64 pixels, larger inside",
    "TIFF of 64 x 64 pixels in a larger tile",
]


@pytest.mark.parametrize("name", HUNGRY)
def test_estimate_of_memory_holds(name: str) -> None:
    """Of 4 million pixels, decoding takes no more than the header lets expect, and more than a third of it."""
    figures = measure(name, 4_000_000, limited=False)
    assert "stored" == figures["result"]
    assert figures["estimate_mb"] / 3 <= figures["grown_mb"] <= figures["estimate_mb"] + MAX_BEYOND_MB


BOMBS = {
    "GIF of 40 bytes": 79_000_000,
    "PNG RGBA": 49_000_000,
    "PNG RGB with a clear colour": 49_000_000,
    "PNG RGB": 89_000_000,
    "WebP lossless": 33_000_000,
    "TIFF of 64 x 64 pixels in a larger tile": 89_000_000,
    "BMP with alpha": 7_000_000,
}
"""Pictures of a few bytes, nearly as large as is let through."""


def test_bombs_one_after_another_do_not_add_up() -> None:
    """A process that makes the largest pictures that are let through, one after another, twice, stays small."""
    assert measure_in_turn(BOMBS) < MAX_PROCESS_MB


def test_ten_thousand_mutated_pictures_are_stored_or_refused() -> None:
    """None of 10,000 mutated pictures of all kinds raises or ends the process, and its memory stays bounded.

    Each gives a picture that opens with the size that is stated, or a failure of one line. Warnings are errors.
    """
    command = [sys.executable, "-m", "tests.support.mutations", "1", "10000"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert 0 == done.returncode, done.stderr[-3_000:]
    figures = json.loads(done.stdout)
    assert 10_000 == sum(figures["seen"].values())
    assert figures["peak_mb"] < MAX_PROCESS_MB
    reasons = {Reason.BROKEN_PICTURE, Reason.NOT_A_PICTURE, Reason.TOO_MANY_PIXELS, Reason.UNSUPPORTED_FORMAT}
    assert {"stored", *reasons} <= figures["seen"].keys()
    assert all(figures["seen"][each] > 50 for each in ("stored", *reasons))


def test_cases_of_the_benchmark_are_named_rightly() -> None:
    """What is tested here is there."""
    assert {*HUNGRY, *BOMBS} <= CASES.keys()
