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
from operator import le
from typing import TYPE_CHECKING, Any, Final

from evenshard.core.errors import ChunkFormatError
from evenshard.core.recipe import MAX_CHUNK_BYTES, NONE_VALUES, Container, Kind, SampleSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from evenshard.core.manifest import Manifest

Value = bytes | str | int | float
"""Of a field, as it is stored."""

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


class SampleDecoder:
    """Gives the field values of samples; missing ones as `NONE_VALUES` says.

    Args:
        kinds: declared types of the fields, in order.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = tuple(kinds)
        self._lengths = struct.Struct(f"<{len(kinds)}I")
        self._readers = [_READERS[kind] for kind in kinds]

    def __call__(self, sample: memoryview | bytes) -> list[Value]:
        """Read one sample.

        Raises:
            ChunkFormatError: the bytes are not a sample with these fields.
        """
        start = self._lengths.size
        if len(sample) < start:
            raise ChunkFormatError("it is too short for its fields")
        lengths = self._lengths.unpack_from(sample)
        if start + sum(lengths) != len(sample):
            raise ChunkFormatError("its fields do not fill it")
        values: list[Value] = []
        try:
            for read, length in zip(self._readers, lengths):  # noqa: B905 - as many; this is done for each sample
                stop = start + length
                payload = sample[start:stop]
                # Texts without a call of a function of Python's: they are most of what is read.
                values.append(str(payload, "utf-8") if read is None else read(payload))
                start = stop
        except UnicodeDecodeError as error:
            raise ChunkFormatError(f"its text is not UTF-8: {error.reason} at byte {error.start}") from None
        except struct.error:
            raise ChunkFormatError(f"its {self._kinds[len(values)].value} field has {length} bytes") from None
        return values


def _reader_of(form: str) -> Callable[[memoryview | bytes], Value]:
    unpack = struct.Struct(form).unpack

    def read(payload: memoryview | bytes) -> Value:
        value: Value = unpack(payload)[0]
        return value

    return read


_READERS: Final[dict[Kind, Callable[[memoryview | bytes], Value] | None]] = {
    Kind.STR: None,
    Kind.BYTES: bytes,
    Kind.PIL: bytes,
    Kind.INT: _reader_of("<q"),
    Kind.FLOAT: _reader_of("<d"),
    Kind.BOOL: _reader_of("<?"),
}


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


def find_misplaced(offsets: Sequence[int], *, first: int, num_samples: int, num_bytes: int) -> int | None:
    """Check a part of a chunk's table of offsets.

    Args:
        offsets: where samples begin, and last, where the last of them ends.
        first: position of the first of them in the chunk.
        num_samples: of the chunk.
        num_bytes: of the whole file.

    Returns:
        The position of the first sample whose place cannot be, if there is one.
    """
    low = table_bytes(num_samples)
    lowest = low if first == 0 else offsets[0]
    highest = num_bytes if first + len(offsets) - 1 == num_samples else offsets[-1]
    fits = (lowest, highest) == (offsets[0], offsets[-1]) and low <= lowest and highest <= num_bytes
    if fits and all(map(le, offsets, offsets[1:])):
        return None
    for position, (start, stop) in enumerate(pairwise(offsets), first):
        is_odd = (position == 0 and start != low) or (position == num_samples - 1 and stop != num_bytes)
        if is_odd or not low <= start <= stop <= num_bytes:
            return position
    return None


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
        "chunk_bytes": manifest.chunk_bytes,
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
