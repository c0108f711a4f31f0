"""The first program of this job, run as it stands."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from evenshard.adapters.local_store import LocalStore
from evenshard.inspection import verify
from tests.support.programs import ROOT, environment
from tests.support.sets import read_set
from tests.support.tables import write_table
from tests.support.web import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.web import Web


def test_samples_are_the_programs_when_only_its_imports_are_changed(web: Web, tmp_path: Path) -> None:
    """The program has no main guard, keeps state in an instance, and yields lists with a resized picture.

    Each sample is the five fields of the table that it keeps, and the picture, as the program yields them.
    """
    web.answers = {
        "/7.jpg": Answer(status=404),
        "/9.jpg": Answer(body=b"no picture"),
    }
    for part, rows in enumerate([range(8), range(8, 20)]):
        columns = {
            "SAMPLE_ID": pa.array(rows, pa.int64()),
            "URL": [f"{web.address}/{row}.jpg" for row in rows],
            "TEXT": [f"légende {row}" for row in rows],
            "HEIGHT": pa.array([120] * len(rows), pa.int32()),
            "WIDTH": pa.array([160] * len(rows), pa.int32()),
            "LICENSE": ["?"] * len(rows),
            "NSFW": ["UNLIKELY"] * len(rows),
            "similarity": [0.25 + row for row in rows],
        }
        write_table(tmp_path / f"meta/part-{part}.parquet", columns)
    program = [sys.executable, str(ROOT / "tests/flows/seed_program.py"), str(tmp_path / "meta"), str(tmp_path / "set")]
    subprocess.run(program, check=True, cwd=ROOT, env=environment(), timeout=240)

    samples = sorted(read_set(tmp_path / "set"), key=lambda sample: sample["0"])
    stored = [row for row in range(20) if row not in {7, 9}]
    assert [(row, f"légende {row}", "?", "UNLIKELY", 0.25 + row) for row in stored] == [
        (sample["0"], sample["2"], sample["3"], sample["4"], sample["5"]) for sample in samples
    ]
    assert {(224, 224)} == {struct.unpack_from("<II", sample["1"]) for sample in samples}
    counts = verify(LocalStore(tmp_path / "set")).counts
    assert (20, 18, {"not-yielded": 2}) == (counts.planned, counts.stored, counts.filtered)
