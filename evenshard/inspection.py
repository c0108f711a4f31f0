"""A published set looked over: what of it is not what was published."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from evenshard.adapters.image import make_picture
from evenshard.adapters.litdata import make_index
from evenshard.chunk_reader import ChunkReader
from evenshard.core.errors import DamagedChunkError, ObjectMissingError, VerificationError
from evenshard.core.layout import INDEX, MANIFEST, RECEIPTS, generation_name, plan_name, receipt_name, slice_index_in
from evenshard.core.manifest import Manifest, receipts_of
from evenshard.core.outcome import Failure
from evenshard.core.recipe import ImageOptions, Resize
from evenshard.core.text import to_json
from evenshard.core.verify import check_manifest
from evenshard.generations import last_generation, read_manifest
from evenshard.verification import NUM_READERS, check_files, find_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.receipt import Receipt
    from evenshard.core.store import Store

EVERY: Final = 10
"""Of how many samples one picture is decoded, when looking deep."""


class Depth(StrEnum):
    """How closely a set is looked at."""

    QUICK = "quick"
    """Every file is there with its size; no chunk is read."""
    WHOLE = "whole"
    """Every byte of every file is what was signed for."""
    DEEP = "deep"
    """Every field of every sample is read besides, and pictures are decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found.

    Args:
        manifest: of the current generation.
        problems: one sentence each, naming file, slice and chunk.
        texts: names of manifests, index, plans and receipts that are missing or altered, with their right content.
        slices: (generation of its plan, slice) of bad chunks and outcomes.
    """

    manifest: Manifest
    problems: tuple[str, ...]
    texts: dict[str, bytes]
    slices: frozenset[tuple[int, int]]


def verify(store: Store, *, depth: Depth = Depth.WHOLE) -> Manifest:
    """Repeat on a published set all that publishing checked.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: names everything that does not agree.
    """
    found = inspect_set(store, depth=depth)
    if found.problems:
        raise VerificationError(found.problems)
    return found.manifest


def inspect_set(store: Store, *, depth: Depth = Depth.WHOLE) -> Findings:
    """Look a published set over.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: neither the manifest nor its copy can be believed.
    """
    manifest = _read_believable(store)
    receipts = receipts_of(manifest)
    texts = {name: text for name, text in _texts(manifest, receipts) if not _holds(store, name, text)}
    problems = [*_newer(store, manifest), *(_text_problem(store, manifest, name) for name in texts)]
    bad = list(_file_problems(store, manifest, receipts, depth=depth))
    return Findings(
        manifest=manifest,
        problems=(*problems, *(problem for _, problem in bad)),
        texts=texts,
        slices=frozenset((receipt.generation, receipt.slice_index) for receipt, _ in bad),
    )


def _read_believable(store: Store) -> Manifest:
    """Read the manifest, or its kept copy where the manifest is missing, damaged, or does not follow from itself."""
    newest, problems = last_generation(store), []
    for name in (MANIFEST, generation_name(newest)) if newest else (MANIFEST,):
        try:
            manifest = read_manifest(store, name)
        except ObjectMissingError:
            if not newest:
                raise
            problems.append(f"{name} is missing")
            continue
        except VerificationError as error:
            problems += error.problems
            continue
        untrue = [f"{name}: {problem}" for problem in check_manifest(manifest)]
        if not untrue:
            return manifest
        problems += untrue
    raise VerificationError(problems)


def _newer(store: Store, manifest: Manifest) -> list[str]:
    newest = last_generation(store)
    if newest <= manifest.generation:
        return []
    return [f"{MANIFEST} is of generation {manifest.generation}, and generation {newest} is published"]


def _texts(manifest: Manifest, receipts: list[Receipt]) -> Iterator[tuple[str, bytes]]:
    """Give the right content of everything that follows from the manifest."""
    own = to_json(manifest, indent=1)
    yield MANIFEST, own
    yield generation_name(manifest.generation), own
    yield INDEX, to_json(make_index(manifest))
    for part in manifest.parts:
        yield plan_name(part.plan.generation), to_json(part.plan, indent=1)
    for receipt in receipts:
        name = receipt_name(generation=receipt.generation, slice_index=receipt.slice_index)
        yield name, to_json(receipt, indent=1)


def _holds(store: Store, name: str, text: bytes) -> bool:
    try:
        return store.read(name) == text
    except ObjectMissingError:
        return False


def _text_problem(store: Store, manifest: Manifest, name: str) -> str:
    if store.size(name) is None:
        return f"{name} is missing"
    if name == generation_name(manifest.generation):
        return f"{name} and {MANIFEST} differ: one of them is altered"
    if name == MANIFEST:
        return f"{name} is altered"
    if name.startswith(RECEIPTS):
        return f"slice {slice_index_in(name)}: receipt {name} is altered: it and {MANIFEST} differ"
    return f"{name} is altered: it and {MANIFEST} differ"


def _file_problems(
    store: Store, manifest: Manifest, receipts: list[Receipt], *, depth: Depth
) -> list[tuple[Receipt, str]]:
    found = find_missing(store, receipts) if depth is Depth.QUICK else check_files(store, receipts)
    if depth is not Depth.DEEP:
        return found
    bad = {id(receipt) for receipt, _ in found}
    holders = [receipt for receipt in receipts for _ in receipt.chunks]
    sound = [number for number, receipt in enumerate(holders) if id(receipt) not in bad]
    reader = ChunkReader(store, manifest=manifest, memory_map=False)  # a bad disk is to be an error
    with ThreadPoolExecutor(NUM_READERS) as pool:
        seen = zip(sound, pool.map(lambda number: _look_into(reader, number), sound), strict=True)
        told = [
            (holders[number], f"slice {holders[number].slice_index}: chunk {reader.chunks[number]} {problem}")
            for number, problem in seen
            if problem
        ]
    return [*found, *told]


def _look_into(reader: ChunkReader, chunk: int) -> str | None:
    """Read every field of a chunk's samples; decode the picture of every tenth."""
    pictures = [index for index, name in enumerate(reader.fields) if name == "image"]
    try:
        for number, values in enumerate(reader.values_in(chunk)):
            for index in pictures if number % EVERY == 0 else ():
                picture = values[index]
                made = make_picture(picture, ImageOptions(resize=Resize.NONE)) if isinstance(picture, bytes) else None
                if isinstance(made, Failure):
                    return f"has a picture that cannot be decoded, in sample {number}: {made.detail}"
    except DamagedChunkError as error:
        return f"has a sample that cannot be read, {error.sample}: {error.problem}"
    return None
