"""Published sets of given samples, chunk by chunk, as if a run had made them."""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from evenshard.adapters.litdata import encode_leaf, encode_sample, hash_parts, pack_chunk
from evenshard.core.layout import MANIFEST, chunk_name, generation_name
from evenshard.core.manifest import make_manifest, make_part
from evenshard.core.outcome import Counts
from evenshard.core.plan import Mode, Plan, Source
from evenshard.core.receipt import Chunk, OutcomesPart, Receipt
from evenshard.core.recipe import Container, Field, Kind, Recipe, SampleSchema
from evenshard.core.text import to_json
from evenshard.core.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evenshard.core.manifest import Manifest
    from evenshard.core.store import Store

NO_OUTCOMES = ".evenshard/outcomes/none.parquet"
Samples = list[tuple[Any, ...]]


def schema_of(container: Container = Container.DICT, **kinds: Kind) -> SampleSchema:
    """Declare a sample's fields by name."""
    return SampleSchema(container=container, fields=tuple(Field(name=name, kind=kind) for name, kind in kinds.items()))


NUMBERED = schema_of(row=Kind.INT, text=Kind.STR)
TEXTS = schema_of(text=Kind.STR, archive=Kind.STR, member=Kind.STR, document=Kind.STR)


def numbered(*sizes: int) -> list[Samples]:
    """Make chunks of so many samples with a number and a text."""
    numbers = iter([(number, f"tëxt {number}" * (1 + number % 3)) for number in range(sum(sizes))])
    return [list(islice(numbers, size)) for size in sizes]


def texts(members: int, count: int, *, per_chunk: int) -> list[Samples]:
    """Make the documents of so many members as samples, cut into chunks."""
    made: Samples = [
        (f"text {j} of {i}\n" * 20, f"subset{i % 2:02d}.tar", f"owt/{i}.xz", f"{i}/{j:07d}.txt")
        for i in range(members)
        for j in range(count)
    ]
    return [made[start : start + per_chunk] for start in range(0, len(made), per_chunk)]


def store_chunks(
    store: Store, schema: SampleSchema | None, chunks: Sequence[Samples], *, generation: int = 1
) -> Manifest:
    """Write chunks and the manifest of a generation that holds them all, and nothing else."""
    kinds = [field.kind for field in schema.fields] if schema else []
    files = [(len(samples), b"".join(pack_chunk([_encoded(kinds, each) for each in samples]))) for samples in chunks]
    return store_packed(store, schema, files, generation=generation)


def _encoded(kinds: Sequence[Kind], sample: tuple[Any, ...]) -> bytes:
    return encode_sample([encode_leaf(kind, value) for kind, value in zip(kinds, sample, strict=True)])


def store_packed(
    store: Store, schema: SampleSchema | None, files: Iterable[tuple[int, bytes]], *, generation: int = 1
) -> Manifest:
    """Write (samples, bytes of a chunk) as they are, and a manifest that says so."""
    chunks = []
    for number, (count, data) in enumerate(files):
        _, digest = hash_parts([data])
        name = chunk_name(generation=generation, slice_index=0, number=number, sha256=digest)
        chunks.append(Chunk(name=name, num_samples=count, num_bytes=len(data), sha256=digest))
        store.put(name, [data])
    store.put(NO_OUTCOMES, [])
    manifest = _manifest(chunks, schema, generation=generation)
    for name in (generation_name(generation), MANIFEST):
        store.put(name, [to_json(manifest, indent=1)])
    return manifest


def _manifest(chunks: Sequence[Chunk], schema: SampleSchema | None, *, generation: int) -> Manifest:
    total = sum(chunk.num_samples for chunk in chunks)
    plan = Plan(
        sources=(Source(path="/table.parquet", num_rows=total, num_bytes=1, version="1"),),
        world=World(),
        recipe=Recipe(columns=(), transform="rows", schema=schema),
        rows_per_slice=max(1, total),
        generation=generation,
        mode=Mode.CREATE,
    )
    receipt = Receipt(
        fingerprint=plan.fingerprint,
        generation=generation,
        slice_index=0,
        rank=0,
        start=0,
        stop=total,
        counts=Counts(planned=total, stored=total),
        chunks=tuple(chunks),
        outcomes=OutcomesPart(name=NO_OUTCOMES, num_rows=total, num_bytes=0, sha256=sha256().hexdigest()),
        schema=schema,
    )
    part = make_part(plan, [receipt])
    return make_manifest([part], generation=generation, made_by=Mode.CREATE, published_at="2026-01-01T00:00:00+00:00")
