"""Tables for tests: ordinary ones, and the odd ones that public bug reports tell of."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write_table(path: Path, columns: dict[str, Any], **options: Any) -> Path:  # noqa: ANN401 - pyarrow's own
    """Write one Parquet file, its folders too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def link_columns(links: Sequence[str | None], *, start: int = 0) -> dict[str, Any]:
    """Give the columns row, url and caption for some links."""
    numbers = range(start, start + len(links))
    return {
        "row": pa.array(numbers, pa.int64()),
        "url": pa.array(links, pa.string()),
        "caption": pa.array([f"Bild Nº {number} 図" for number in numbers], pa.string()),
    }


def plain_columns(count: int, *, start: int = 0, address: str = "http://127.0.0.1:9") -> dict[str, Any]:
    """Give the columns row, url, caption, width and height of ordinary rows."""
    columns = link_columns([f"{address}/ok.jpg?row={start + number}" for number in range(count)], start=start)
    return {
        **columns,
        "width": pa.array([64] * count, pa.int32()),
        "height": pa.array([48] * count, pa.int32()),
    }


def write_empty_among_full(folder: Path, *, address: str = "http://127.0.0.1:9") -> Path:
    """Write the case C01: files of 0, 5, 0, 0 and 2 rows; the first has no types, the third no row group."""
    ordinary = plain_columns(0)
    write_table(folder / "a-empty-untyped.parquet", {name: pa.nulls(0) for name in ordinary})
    write_table(folder / "b-five.parquet", plain_columns(5, address=address))
    with pq.ParquetWriter(folder / "c-no-row-groups.parquet", pa.table(ordinary).schema):
        pass
    write_table(folder / "d-empty.parquet", ordinary)
    write_table(folder / "e-two.parquet", plain_columns(2, start=5, address=address))
    return folder


def write_tiny_row_groups(folder: Path, *, address: str = "http://127.0.0.1:9") -> Path:
    """Write the case C02: 1,009 rows in 281 row groups of 1 to 7, and 13 rows in one."""
    folder.mkdir(parents=True)
    table = pa.table(plain_columns(1009, address=address))
    sizes, made = (1, 2, 3, 5, 7), 0
    with pq.ParquetWriter(folder / "part-0.parquet", table.schema, use_dictionary=False) as writer:
        for group in range(1009):
            rows = min(sizes[group % len(sizes)], 1009 - made)
            if not rows:
                break
            writer.write_table(table.slice(made, rows), row_group_size=rows)
            made += rows
    write_table(folder / "part-1.parquet", plain_columns(13, start=1009, address=address), use_dictionary=False)
    return folder


def write_mixed_schemas(folder: Path, *, address: str = "http://127.0.0.1:9") -> Path:
    """Write the case C04: seven files of three rows that differ in types, order, names and columns."""

    def rows(start: int) -> dict[str, Any]:
        return plain_columns(3, start=start, address=address)

    write_table(folder / "part-0.parquet", rows(0))
    wide = rows(3)
    write_table(
        folder / "part-1-other-numbers.parquet",
        {**wide, "width": wide["width"].cast(pa.int64()), "height": wide["height"].cast(pa.float64())},
    )
    turned = {**rows(6), "width": pa.array([640] * 3, pa.int32()), "height": pa.array([480] * 3, pa.int32())}
    order = ("height", "caption", "width", "url", "row")
    write_table(folder / "part-2-other-order.parquet", {name: turned[name] for name in order})
    without = {name: values for name, values in rows(9).items() if name != "caption"}
    write_table(folder / "part-3-no-caption.parquet", without)
    write_table(folder / "part-4-null-caption.parquet", {**rows(12), "caption": pa.nulls(3)})
    upper = rows(15)
    names = {"url": "URL", "caption": "TEXT", "width": "WIDTH", "height": "HEIGHT", "row": "row"}
    write_table(folder / "part-5-upper-case.parquet", {names[name]: values for name, values in upper.items()})
    similar = {"row": pa.array([18, 19, 20], pa.int64()), "similarity": pa.array([0.1, 0.2, 0.3])}
    write_table(folder / "part-6-no-url.parquet", similar)
    return folder


def write_broken_files(folder: Path, *, address: str = "http://127.0.0.1:9") -> Path:
    """Write the case C08: two good files, seven that are no Parquet file, one with a damaged page."""
    write_table(folder / "a-good.parquet", plain_columns(3, address=address))
    write_table(folder / "z-good.parquet", plain_columns(3, start=3, address=address))
    path = write_table(folder / "whole", plain_columns(50, start=100))
    whole = path.read_bytes()
    path.unlink()
    broken = {
        "b-bad-magic": whole[:-4] + b"XXXX",
        "c-bad-footer": flipped(whole, len(whole) - 60, 20),
        "d-cut": whole[: len(whole) * 6 // 10],
        "e-zero-bytes": b"",
        "f-text": b"url,caption\nhttp://127.0.0.1/x.jpg,renamed text\n",
        "g-web-page": b"<!doctype html><title>404</title><p>No such object</p>\n",
        "h-gzip": gzip.compress(whole, mtime=0),
    }
    for name, data in broken.items():
        (folder / f"{name}.parquet").write_bytes(data)
    write_damaged_page(folder / "i-bad-page.parquet", address=address)
    return folder


def write_damaged_page(path: Path, *, address: str = "http://127.0.0.1:9") -> Path:
    """Write 40 rows in two row groups; in the second a page of links is damaged, the footer is sound."""
    rows = plain_columns(40, start=200, address=address)
    write_table(path, rows, row_group_size=20, use_dictionary=False, write_page_checksum=True, compression="zstd")
    column = pq.read_metadata(path).row_group(1).column(1)
    middle = column.data_page_offset + column.total_compressed_size // 2
    path.write_bytes(flipped(path.read_bytes(), middle))
    return path


def flipped(data: bytes, at: int, count: int = 8) -> bytes:
    """Give data with some bytes inverted."""
    changed = bytearray(data)
    for index in range(at, min(at + count, len(changed))):
        changed[index] ^= 0xFF
    return bytes(changed)
