"""Columns of odd kinds, which a table may have beside those that are wanted."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tests.support.tables import write_table

if TYPE_CHECKING:
    from pathlib import Path

PRICES: Final = [decimal.Decimal("1.5"), None]
BAD_TEXT: Final = b"\xff\xfe no text"

ODD_COLUMNS: Final[dict[str, Any]] = {
    "decimal": pa.array(PRICES, pa.decimal128(38, 10)),
    "wide decimal": pa.array(PRICES, pa.decimal256(70, 10)),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "not a number": pa.array([float("nan"), None]),
    "half float": pa.array([1.5, None], pa.float16()),
    "nanoseconds": pa.array([1, None], pa.timestamp("ns")),
    "time zone": pa.array([1, None], pa.timestamp("us", "Europe/Vienna")),
    "no such time zone": pa.array([1, None], pa.timestamp("us", "No/Where")),
    "time of day": pa.array([1, None], pa.time64("ns")),
    "duration": pa.array([1, None], pa.duration("ns")),
    "day": pa.array([dt.date(1, 1, 1), None]),
    "nested list": pa.array([[[1, 2], []], None]),
    "struct": pa.array([{"a": 1, "b.c": {"d": "x"}}, None]),
    "fixed list": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    "list view": pa.array([[1], None], pa.list_view(pa.int32())),
    "dictionary of decimals": pa.array(PRICES, pa.decimal128(10, 2)).dictionary_encode(),
    "dictionary of moments": pa.array([1, None], pa.timestamp("ns")).dictionary_encode(),
    "dictionary of bytes": pa.array([b"x", None]).dictionary_encode(),
    "fixed bytes": pa.array([b"abc", None], pa.binary(3)),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16, None], pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None])),
    "bad text": pa.array([BAD_TEXT, None]).view(pa.string()),
    "unsigned": pa.array([2**64 - 1, None], pa.uint64()),
    "null": pa.nulls(2),
}

_TEXT_LEAF: Final = b"\x25\x00\x4c\x1c\x00\x00"
"""How a footer writes that a leaf is text: converted type UTF8, logical type STRING. Source: parquet.thrift."""

ANNOTATIONS: Final = {
    "enum": b"\x25\x08\x4c\x4c\x00\x00",
    "bson": b"\x25\x28\x4c\xdc\x00\x00",
    "annotated json": b"\x25\x26\x4c\xcc\x00\x00",
    "unknown annotation": b"\x25\x7e\x4c\x1c\x00\x00",
    "annotation of groups": b"\x25\x02\x4c\x2c\x00\x00",
}
"""The same place with other annotations, some of which no library writes."""

ODD_KINDS: Final = (*ODD_COLUMNS, *ANNOTATIONS, "interval", "old timestamp")


def write_odd_column(path: Path, kind: str, *, beside: dict[str, Any]) -> Path:
    """Write two rows with a column `odd` of an odd kind beside others."""
    if kind in ODD_COLUMNS:
        return write_table(path, {**beside, "odd": ODD_COLUMNS[kind]})
    if kind == "old timestamp":
        columns = {**beside, "odd": pa.array([-(2**62), None], pa.timestamp("us"))}
        return write_table(path, columns, use_deprecated_int96_timestamps=True)
    values = pa.array([decimal.Decimal(5)] * 2, pa.decimal128(28, 0)) if kind == "interval" else pa.array(["p", "q"])
    write_table(path, {**beside, "odd": values}, store_schema=False, compression="none", use_dictionary=False)
    data = path.read_bytes()
    if kind == "interval":  # converted type DECIMAL becomes INTERVAL, the logical type a field that nobody knows
        at = data.rindex(b"\x25\x0a\x15\x00\x15\x38\x2c")
        data = data[:at] + b"\x25\x2a\x15\x00\x15\x38\x5c" + data[at + 7 :]
    else:
        at = data.rindex(_TEXT_LEAF)
        data = data[:at] + ANNOTATIONS[kind] + data[at + len(_TEXT_LEAF) :]
    path.write_bytes(data)
    return path
