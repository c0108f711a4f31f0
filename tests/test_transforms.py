"""Callables of one's own: what they may yield, and what it becomes."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from PIL import Image

from evenshard.adapters.litdata import pack_chunk
from evenshard.adapters.local_store import LocalStore
from evenshard.clients import Clients
from evenshard.code_version import version_of
from evenshard.core.errors import OptionError
from evenshard.core.recipe import Container, Field, Kind, SampleSchema
from evenshard.planning import Request, make_plan
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.transforms import SampleEncoder, find_callable, schema_of
from evenshard.worker import SliceWorker
from tests.support.chunks import read_samples
from tests.support.programs import ROOT, environment
from tests.support.sets import read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import polars as pl


class Declared:
    """A callable that declares its fields."""

    fields: ClassVar = {"x": "int", "text": "str"}


def encoded(samples: Sequence[object], schema: SampleSchema | None = None) -> tuple[SampleSchema | None, list[Any]]:
    """Encode samples and read them back."""
    encoder = SampleEncoder(schema)
    data = [ready for sample in samples for ready in encoder.add(sample)]
    data += encoder.finish()
    found = encoder.schema
    kinds = [field.kind for field in found.fields] if found else []
    return found, list(read_samples(b"".join(pack_chunk(data)), kinds)) if found else []


@pytest.mark.parametrize(
    ("sample", "container", "names"),
    [
        ({"b": 1, "a": "é"}, Container.DICT, ["b", "a"]),
        ([1, "é"], Container.LIST, ["0", "1"]),
        ((1, "é"), Container.TUPLE, ["0", "1"]),
    ],
    ids=["dict", "list", "tuple"],
)
def test_sample_keeps_its_shape_when_yielded(sample: object, container: Container, names: list[str]) -> None:
    """Dicts, lists and tuples are told apart, and keep the order of their fields."""
    schema, values = encoded([sample])
    assert schema is not None
    assert (container, names) == (schema.container, [field.name for field in schema.fields])
    assert [[1, "é"]] == values


def test_types_are_found_from_all_samples_when_none_are_declared() -> None:
    """A None takes the type of the others, before or after it; whole numbers may follow floats."""
    schema, values = encoded([[None, 1.5, b"a"], [True, 2, None], [None, None, b"c"]])
    assert schema is not None
    assert [Kind.BOOL, Kind.FLOAT, Kind.BYTES] == [field.kind for field in schema.fields]
    assert ([False, 1.5, b"a"], [True, 2.0, b""]) == (values[0], values[1])


def test_samples_are_ready_as_they_come_when_their_types_are_known() -> None:
    """Nothing is held once each field has a type; a field that is None for too long is taken for text."""
    encoder = SampleEncoder(None, hold_bytes=100)
    assert [[], [], 3, 1] == [
        encoder.add([1, None]),
        encoder.add([2, None]),
        len(encoder.add([3, b"x"])),
        len(encoder.add([4, None])),
    ]
    encoder = SampleEncoder(None, hold_bytes=100)
    assert [0, 0, 3, 1] == [len(encoder.add([b"x" * 40, None])) for _ in range(4)]
    with pytest.raises(TypeError, match="field '1' is int here and str elsewhere"):
        encoder.add([b"", 5])


def test_picture_is_stored_as_its_pixels_when_yielded() -> None:
    """A PIL picture becomes a `pil` field; a palette picture keeps its colours."""
    schema, values = encoded([[Image.new("RGB", (2, 1), (9, 8, 7)).quantize(2)]])
    assert schema is not None
    assert Kind.PIL is schema.fields[0].kind
    assert b"RGB" + bytes((9, 8, 7)) * 2 == values[0][0][12:]


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([1], "must be a dict, list or tuple, not int"),
        ([[1], (1,)], "a sample is a tuple, those before were a list"),
        ([[1], [1, 2]], "has the fields"),
        ([[1], ["a"]], "field '0' is str here and int elsewhere"),
        ([[1], [1.5]], "field '0' is float here and int elsewhere"),
        ([[object()]], "a value of type object cannot be stored"),
    ],
    ids=["no sample", "container", "count", "type", "float after int", "object"],
)
def test_sample_is_refused_when_it_is_unlike_those_before(samples: list[object], told: str) -> None:
    """Types are never changed in the middle of a slice."""
    with pytest.raises((TypeError, ValueError), match=told):
        encoded(samples)


def test_fields_are_as_declared_when_a_callable_declares_them() -> None:
    """Declared fields decide names and types, also where all values are None, and for lists."""
    schema = SampleSchema(
        container=Container.DICT, fields=(Field(name="x", kind=Kind.INT), Field(name="text", kind=Kind.STR))
    )
    assert schema == schema_of(Declared)
    assert (schema, [[5, ""], [-(2**63), "b"]]) == encoded([[5, None], {"x": None, "text": "b"}], schema)


def test_class_is_made_once_in_each_worker(tmp_path: Path) -> None:
    """One worker makes one instance, which sees all of its slices."""
    source = write_table(tmp_path / "a.parquet", plain_columns(6))
    request = Request(transform="tests.support.callables:Counting", rows_per_slice=2)
    plan = make_plan(str(source), request)
    settings = RunSettings(destination=str(tmp_path / "set"))
    with Clients() as clients:
        worker = SliceWorker(clients)
        for index in range(3):
            worker.run(make_job(plan, index, settings, fingerprint=plan.fingerprint), lambda _: None)
    publish(plan, LocalStore(tmp_path / "set"))
    assert [1, 1, 2, 2, 3, 3] == [sample["call"] for sample in read_set(tmp_path / "set")]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nonsense", "is not images, rows, or package.module:callable"),
        ("no.such.module:f", "module 'no.such.module' cannot be imported"),
        ("json:no_such", "module 'json' has no callable 'no_such'"),
        ("os:sep", "module 'os' has no callable 'sep'"),
    ],
)
def test_callable_is_refused_when_it_is_not_there(name: str, told: str) -> None:
    """The error names the part that is wrong."""
    with pytest.raises(OptionError, match=told):
        find_callable(name)


def test_version_changes_when_the_source_file_or_the_state_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callable's code and its state are part of a plan; a built-in transform has no version."""
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "some_transform.py"
    source.write_text(
        "class T:\n    def __init__(self, x):\n        self.x = x\n    def __call__(self, frame):\n        pass\n"
    )
    made = importlib.import_module("some_transform").T
    first = version_of(made(1))
    assert first == version_of(made(1))
    assert first != version_of(made(2))
    assert version_of(partial(made, 1)) != version_of(partial(made, 2))
    source.write_text(source.read_text().replace("pass", "return []"))
    assert first != version_of(made(1))
    assert version_of(None) == ""


class Holder:
    """A callable with a state that no process may write in another way."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.names = {f"name-{number}" for number in range(50)}
        self.me = self
        self.again = [self]

    def __call__(self, _frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield nothing."""
        return iter(())


def test_version_is_the_same_in_every_process() -> None:
    """Sets, locks, and values that hold themselves: no address and no order of a set is in the hash."""
    program = "from tests.test_transforms import Holder; from evenshard.code_version import version_of as v; "
    program += "print(v(Holder()), v(Holder().__call__))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={**environment(), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
    other = Holder()
    other.names.pop()
    assert version_of(Holder()) != version_of(other)


def test_dict_in_another_order_is_the_same_sample() -> None:
    """The order in which a dict holds its fields means nothing."""
    encoder = SampleEncoder(None)
    encoder.add({"a": 1, "b": "x"})
    encoder.add({"b": "y", "a": 2})
    assert ["a", "b"] == [field.name for field in encoder.schema.fields] if encoder.schema else False
