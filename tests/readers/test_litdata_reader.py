"""litdata's own StreamingDataset gives every stored sample back."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from evenshard.adapters.local_store import LocalStore
from evenshard.clients import Clients
from evenshard.core.recipe import ImageOptions
from evenshard.core.world import World
from evenshard.planning import Request, make_plan
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.worker import SliceWorker
from tests.support.pictures import jpeg
from tests.support.programs import ROOT
from tests.support.rows_set import append_rows
from tests.support.sets import publish_table, read_set
from tests.support.tables import link_columns, plain_columns, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.readers
SCRIPT = Path(__file__).parent / "read_litdata.py"


def read(python: str, folder: Path) -> tuple[list[Any], Any]:
    """Read a set with the reader; gives its samples, and the last one as found by number."""
    done = subprocess.run([python, str(SCRIPT), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *samples, last = [json.loads(line) for line in done.stdout.splitlines()]
    return samples, last


@pytest.fixture
def web() -> Iterator[Web]:
    """Serve pictures of many sizes, and a few faults."""
    with Web() as server:
        server.answers = {f"/{number}.jpg": Answer(body=jpeg(50 + number, 90)) for number in range(40)}
        server.answers |= {"/7.jpg": Answer(status=404), "/21.jpg": Answer(body=b"<html>")}
        yield server


def test_reader_gives_every_sample_back_when_pictures_are_stored(web: Web, tmp_path: Path, litdata_python: str) -> None:
    """All samples over many chunks, in row order, captions equal, JPEG bytes of the size asked for."""
    links = [f"{web.address}/{number}.jpg" for number in range(40)]
    source = write_table(tmp_path / "t.parquet", link_columns(links))
    request = Request(
        caption_column="caption",
        columns=("row",),
        world=World(workers_per_node=3),
        rows_per_slice=6,
        chunk_bytes=8_000,
        image=ImageOptions(size_px=64),
    )
    publish_table(source, tmp_path / "set", request)

    ours = read_set(tmp_path / "set")
    rows = [row for row in range(40) if row not in {7, 21}]
    expected = [
        {"image": hashlib.sha256(sample["image"]).hexdigest(), "caption": f"Bild Nº {row} 図", "row": row}
        for row, sample in zip(rows, ours, strict=True)
    ]
    samples, last = read(litdata_python, tmp_path / "set")
    assert expected == samples
    assert expected[-1] == last
    assert {("JPEG", (64, 64))} == {
        (picture.format, picture.size) for picture in (Image.open(io.BytesIO(sample["image"])) for sample in ours)
    }
    assert len(list((tmp_path / "set").glob("chunk-*"))) > 7


def test_reader_gives_values_of_every_type_back_when_rows_are_stored(tmp_path: Path, litdata_python: str) -> None:
    """Texts, numbers, floats, booleans and bytes; missing ones as stated."""
    columns = {**plain_columns(5), "score": [0.5, 1.5, None, -0.0, 2.0], "seen": [True, False, True, True, False]}
    source = write_table(tmp_path / "t.parquet", {**columns, "raw": [b"a", b"", b"\0", None, b"z"]})
    publish_table(source, tmp_path / "set", Request(transform="rows", rows_per_slice=2))
    samples, _ = read(litdata_python, tmp_path / "set")
    assert [f"Bild Nº {row} 図" for row in range(5)] == [sample["caption"] for sample in samples]
    assert [True, False, True, True, False] == [sample["seen"] for sample in samples]
    assert [0.5, 1.5, -0.0, 2.0] == [sample["score"] for sample in samples if sample["row"] != 2]
    assert samples[2]["score"] != samples[2]["score"]  # not a number
    assert [hashlib.sha256(raw).hexdigest() for raw in (b"a", b"", b"\0", b"", b"z")] == [
        sample["raw"] for sample in samples
    ]


class Lists:
    """Yields lists with a picture, as the first program does."""

    def __call__(self, frame: Any) -> Iterator[list[Any]]:  # noqa: ANN401 - a polars frame
        """Yield a number, a picture and a text."""
        for row in frame["row"]:
            yield [row, Image.new("RGB", (4, 3), (row, 2, 3)), f"é{row}"]


def test_reader_gives_lists_and_pictures_back_when_a_callable_yields_them(tmp_path: Path, litdata_python: str) -> None:
    """A list comes back as a list, a picture as a picture of the same pixels."""
    source = write_table(tmp_path / "t.parquet", plain_columns(5))
    request = Request(transform=f"{__name__}:Lists", given=Lists())
    plan, store = make_plan(str(source), request), LocalStore(tmp_path / "set")
    import cloudpickle  # noqa: PLC0415

    settings = RunSettings(destination=str(tmp_path / "set"), transform=cloudpickle.dumps(Lists()))
    with Clients() as clients:
        job = make_job(plan, 0, settings, fingerprint=plan.fingerprint)
        SliceWorker(clients).run(job, lambda _: None)
    publish(plan, store)
    samples, _ = read(litdata_python, tmp_path / "set")
    digests = [hashlib.sha256(bytes((row, 2, 3)) * 12).hexdigest() for row in range(5)]
    assert [[row, [4, 3, "RGB", digest], f"é{row}"] for row, digest in enumerate(digests)] == samples


def test_reader_goes_on_with_its_generation_when_the_next_is_published(tmp_path: Path, litdata_python: str) -> None:
    """A reader that stands at its first sample gets all others of its generation; one that opens later, the new."""
    write_table(tmp_path / "t/a.parquet", plain_columns(12))
    append_rows(tmp_path / "t", tmp_path / "set")
    command = [litdata_python, str(SCRIPT), str(tmp_path / "set"), "--wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        first = reader.stdout.readline()
        write_table(tmp_path / "t/b.parquet", plain_columns(5, start=12))
        assert append_rows(tmp_path / "t", tmp_path / "set").generation == 2
        others, _ = reader.communicate("\n", timeout=240)
    rows = [json.loads(line)["row"] for line in [first, *others.splitlines()]]
    assert ([*range(12), 11], 0) == (rows, reader.returncode)
    assert list(range(17)) == [sample["row"] for sample in read(litdata_python, tmp_path / "set")[0]]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_torch_takes_the_chunk_reader_as_a_dataset(tmp_path: Path, litdata_python: str, method: str) -> None:
    """`ChunkReader` is a map-style dataset as it stands: two workers of a DataLoader read every row once."""
    source = write_table(tmp_path / "t.parquet", plain_columns(50))
    publish_table(source, tmp_path / "set", Request(transform="rows", rows_per_slice=7))
    command = [litdata_python, str(SCRIPT.with_name("read_torch.py")), str(tmp_path / "set"), method]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    batches = [json.loads(line) for line in done.stdout.splitlines()]
    assert list(range(50)) == sorted(row for batch in batches for row in batch)
    assert list(range(4)) != batches[0]
