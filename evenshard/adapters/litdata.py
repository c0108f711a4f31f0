"""litdata's classic chunk layout and index: write, read back, check.

A chunk is u32 N; u32 x (N+1) absolute offsets; the samples. A sample is u32 x L leaf lengths; the leaves.
All numbers are little endian. Source: measured against litdata 0.2.45 to 0.2.76, whose readers open it.
Newer releases of that writer use another layout for plain values, which older readers do not know.
"""

from __future__ import annotations

import json
import struct
from hashlib import sha256
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from evenshard.core.errors import ChunkFormatError
from evenshard.core.recipe import MAX_CHUNK_BYTES, NONE_VALUES, Container, Kind, SampleSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from evenshard.core.manifest import Manifest

_PACKERS: Final = {Kind.INT: struct.Struct("<q").pack, Kind.FLOAT: struct.Struct("<d").pack}


def encode_leaf(kind: Kind, value: object) -> bytes:
    """Give the payload of one field.

    Args:
        kind: the field's declared type.
        value: of that type, or None, which is stored as `NONE_VALUES` says.

    Raises:
        ValueError: the value does not fit in 64 bits.
        TypeError: the value is of another type.
    """
    value = NONE_VALUES[kind] if value is None else value
    match kind, value:
        case Kind.STR, str():
            return value.encode()
        case ((Kind.BYTES | Kind.PIL), bytes()):
            return value
        case Kind.BOOL, bool():
            return b"\x01" if value else b"\x00"
        case (Kind.INT, int()) | (Kind.FLOAT, float() | int()):
            try:
                return _PACKERS[kind](value)
            except (struct.error, OverflowError):
                raise ValueError(f"{value} does not fit in 64 bits") from None
    raise TypeError(f"expected {kind.value}, got {type(value).__name__}")


def encode_sample(leaves: Sequence[bytes]) -> bytes:
    """Join the payloads of one sample's fields.

    Raises:
        ValueError: the sample would not fit in a chunk.
    """
    lengths = [len(leaf) for leaf in leaves]
    if sum(lengths) + 4 * len(leaves) + 12 > MAX_CHUNK_BYTES:
        raise ValueError(f"a sample of {sum(lengths)} bytes does not fit in a chunk")
    return b"".join([struct.pack(f"<{len(lengths)}I", *lengths), *leaves])


def decode_leaf(kind: Kind, payload: bytes) -> bytes | str | int | float:
    """Give back what `encode_leaf` was given; missing values come back as `NONE_VALUES` says."""
    match kind:
        case Kind.STR:
            return payload.decode()
        case Kind.BOOL:
            return payload != b"\x00"
        case Kind.INT:
            return int.from_bytes(payload, "little", signed=True)
        case Kind.FLOAT:
            number: float = struct.unpack("<d", payload)[0]
            return number
        case _:
            return payload


def group_samples(samples: Iterable[bytes], *, chunk_bytes: int) -> Iterator[list[bytes]]:
    """Cut a stream of encoded samples into chunks, in order.

    Samples are added until the next would make their sum pass `chunk_bytes`; the table of offsets is
    not counted; a longer sample has a chunk of its own. Source: litdata's own size rule. The whole file
    stays below 2^32 bytes, which its offsets cannot pass.
    """
    group: list[bytes] = []
    total = 0
    for sample in samples:
        full = total + len(sample) > chunk_bytes
        wraps = total + len(sample) + 4 * (len(group) + 3) > MAX_CHUNK_BYTES
        if group and (full or wraps):
            yield group
            group, total = [], 0
        group.append(sample)
        total += len(sample)
    if group:
        yield group


def pack_chunk(samples: Sequence[bytes]) -> list[bytes]:
    """Give the parts of a chunk file: its header, then the samples, uncopied."""
    offset = table_bytes(len(samples))
    offsets = [offset]
    for sample in samples:
        offset += len(sample)
        offsets.append(offset)
    if offset > MAX_CHUNK_BYTES:
        raise ChunkFormatError(f"a chunk of {offset} bytes is too long; its offsets have 32 bits")
    return [struct.pack(f"<{len(offsets) + 1}I", len(samples), *offsets), *samples]


def hash_parts(parts: Iterable[bytes]) -> tuple[int, str]:
    """Give length and SHA-256 of the joined parts."""
    digest, length = sha256(), 0
    for part in parts:
        digest.update(part)
        length += len(part)
    return length, digest.hexdigest()


def table_bytes(num_samples: int) -> int:
    """Say how long the header of a chunk is: its count, and its table of offsets."""
    return 4 + 4 * (num_samples + 1)


def count_samples(header: bytes, *, num_bytes: int) -> int:
    """Read a chunk's count, and check its table of offsets where all of it is given.

    Args:
        header: the first bytes of the file: as many as the expected table has.
        num_bytes: length of the whole file.

    Raises:
        ChunkFormatError: the table does not fit the file.
    """
    if len(header) < 4:
        raise ChunkFormatError("is too short for a chunk")
    num_samples = int.from_bytes(header[:4], "little")
    if table_bytes(num_samples) <= len(header):
        read_offsets(header, num_bytes=num_bytes)
    return num_samples


def read_offsets(header: bytes, *, num_bytes: int) -> tuple[int, ...]:
    """Read and check the table of offsets: N + 1 numbers for N samples.

    Args:
        header: at least the whole table.
        num_bytes: length of the whole file.

    Raises:
        ChunkFormatError: the table does not fit the file.
    """
    if len(header) < 4:
        raise ChunkFormatError("is too short for a chunk")
    length = table_bytes(int.from_bytes(header[:4], "little"))
    if length > min(len(header), num_bytes):
        raise ChunkFormatError("is shorter than its table of offsets")
    offsets = struct.unpack_from(f"<{length // 4 - 1}I", header, 4)
    if offsets[0] != length or offsets[-1] != num_bytes or any(a > b for a, b in pairwise(offsets)):
        raise ChunkFormatError("has a table of offsets that does not fit its samples")
    return offsets


def read_samples(data: bytes, kinds: Sequence[Kind]) -> Iterator[list[bytes | str | int | float]]:
    """Give the samples of a whole chunk, in order, as lists of field values.

    Raises:
        ChunkFormatError: the bytes are not a chunk of samples with these fields.
    """
    for start, stop in pairwise(read_offsets(data, num_bytes=len(data))):
        yield _read_sample(data[start:stop], kinds)


def _read_sample(sample: bytes, kinds: Sequence[Kind]) -> list[bytes | str | int | float]:
    head = 4 * len(kinds)
    if len(sample) < head:
        raise ChunkFormatError("has a sample that is too short for its fields")
    lengths = struct.unpack_from(f"<{len(kinds)}I", sample)
    if head + sum(lengths) != len(sample):
        raise ChunkFormatError("has a sample whose fields do not fill it")
    values, start = [], head
    for kind, length in zip(kinds, lengths, strict=True):
        values.append(decode_leaf(kind, sample[start : start + length]))
        start += length
    return values


def make_index(manifest: Manifest) -> dict[str, Any]:
    """Project a manifest onto litdata's `index.json`.

    Checksums stand beside the chunks' names: readers pass over keys that they do not know. `updated_at`
    only names the reader's cache folder, so it is a hash of the content: equal sets have equal indexes.
    """
    chunks = [
        {
            "chunk_bytes": chunk.num_bytes,
            "chunk_size": chunk.num_samples,
            "dim": None,
            "filename": chunk.name,
            "sha256": chunk.sha256,
        }
        for chunk in manifest.chunks
    ]
    config = {
        "chunk_bytes": manifest.recipe.chunk_bytes,
        "chunk_size": None,
        "compression": None,
        "data_format": [field.kind.value for field in manifest.schema.fields] if manifest.schema else [],
        "data_spec": _tree_spec(manifest.schema) if manifest.schema else None,
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }
    digest = sha256("\n".join(chain([json.dumps(config)], (chunk.sha256 for chunk in manifest.chunks))).encode())
    return {"chunks": chunks, "config": config, "updated_at": digest.hexdigest()[:16]}


def _tree_spec(schema: SampleSchema) -> str:
    """Write the shape of a sample as its reader rebuilds it: JSON, with the keys of a dict as JSON inside it."""
    names = [field.name for field in schema.fields]
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    node = {
        "type": f"builtins.{schema.container.value}",
        "context": json.dumps(names if schema.container is Container.DICT else None),
        "children_spec": [leaf] * len(names),
    }
    return json.dumps([1, node])
