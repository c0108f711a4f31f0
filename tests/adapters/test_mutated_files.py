"""Parquet files altered at random end in words, and never in a crash or an error that nobody has named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNT = 1_000


def test_file_is_bad_or_read_when_it_is_altered_at_random(tmp_path: Path) -> None:
    """1,000 altered files, planned and read in all ways: no footer, rows, rows at fault, or unreadable; nothing else.

    What polars prints where it panics is not looked at; pyarrow has the last word on such files.
    """
    command = [sys.executable, "-m", "tests.support.mutated", str(tmp_path), str(COUNT), "1"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert 0 == done.returncode, done.stderr[-2_000:]
    tally = json.loads(done.stdout)
    assert COUNT == sum(tally.values())
    assert {"no footer", "rows", "faults+unreadable"} <= tally.keys()
    ways = {way for ended in tally for way in ended.split("+")}
    assert ways <= {"no footer", "no column", "problems", "rows", "faults", "unreadable"}
    assert tally["rows"] > COUNT / 10
