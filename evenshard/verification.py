"""Is what is stored what was signed for? Reads bytes; the rules are in `core.verify`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from evenshard.adapters.litdata import count_samples, make_index, table_bytes
from evenshard.core.errors import ChunkFormatError, ObjectMissingError, StoreError, VerificationError
from evenshard.core.layout import (
    INDEX,
    MANIFEST,
    generation_name,
    plan_name,
    receipt_name,
    receipts_prefix,
    slice_index_in,
)
from evenshard.core.manifest import FORMAT_VERSION, Manifest, plan_of, receipt_of
from evenshard.core.receipt import Receipt
from evenshard.core.text import from_json, to_json
from evenshard.core.verify import Facts, check_chunk, check_manifest, check_outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from evenshard.core.receipt import Chunk, OutcomesPart
    from evenshard.core.store import Store

NUM_READERS: Final = 4
"""Threads that hash files: hashing and reading let go of the interpreter lock."""


def find_receipt(store: Store, *, generation: int, slice_index: int) -> Receipt | None:
    """Read the receipt of a slice, if there is one.

    Raises:
        VerificationError: there is one, and it is damaged; names it.
    """
    name = receipt_name(generation=generation, slice_index=slice_index)
    try:
        return from_json(Receipt, store.read(name))
    except ObjectMissingError:
        return None
    except ValueError as error:
        raise VerificationError([f"slice {slice_index}: receipt {name} is damaged: {error}"]) from error


def read_receipts(store: Store, *, generation: int) -> dict[int, Receipt]:
    """Read all receipts of a generation, by slice.

    Raises:
        VerificationError: one is damaged, or its name is none of a slice.
    """
    prefix = receipts_prefix(generation)
    indexes = [slice_index_in(name) for name in store.names(prefix)]
    with ThreadPoolExecutor(NUM_READERS) as pool:
        found = pool.map(lambda index: find_receipt(store, generation=generation, slice_index=index), indexes)
        return {index: receipt for index, receipt in zip(indexes, found, strict=True) if receipt is not None}


def read_manifest(store: Store, name: str = MANIFEST) -> Manifest:
    """Read a manifest, that of the current generation by default.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: it is damaged, or of a later version of this software.
    """
    try:
        manifest = from_json(Manifest, store.read(name))
    except ValueError as error:
        raise VerificationError([f"{name} is damaged: {error}"]) from error
    if manifest.format_version != FORMAT_VERSION:
        raise VerificationError([f"{name} has format version {manifest.format_version}; this reads {FORMAT_VERSION}"])
    return manifest


def verify(store: Store) -> Manifest:
    """Repeat on a published set all that publishing checked: every byte of every file is read.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: names everything that does not agree.
    """
    manifest = read_manifest(store)
    receipts = [receipt_of(manifest, entry) for entry in manifest.slices]
    problems = [
        *check_manifest(manifest),
        *_text_problems(store, manifest, receipts),
        *(problem for _, problem in check_files(store, receipts)),
    ]
    if problems:
        raise VerificationError(problems)
    return manifest


def _text_problems(store: Store, manifest: Manifest, receipts: Sequence[Receipt]) -> list[str]:
    """Hold index, manifests and receipts, byte for byte, against what the manifest says they are."""
    expected = {
        MANIFEST: to_json(manifest, indent=1),
        generation_name(manifest.generation): to_json(manifest, indent=1),
        INDEX: to_json(make_index(manifest)),
    }
    expected[plan_name(manifest.generation)] = to_json(plan_of(manifest), indent=1)
    problems = [_text_problem(store, name, text) for name, text in expected.items()]
    for receipt in receipts:
        name = receipt_name(generation=receipt.generation, slice_index=receipt.slice_index)
        problem = _text_problem(store, name, to_json(receipt, indent=1))
        problems.append(problem and f"slice {receipt.slice_index}: receipt {problem}")
    return [problem for problem in problems if problem]


def _text_problem(store: Store, name: str, text: bytes) -> str | None:
    try:
        return None if store.read(name) == text else f"{name} is altered: it and {MANIFEST} differ"
    except ObjectMissingError:
        return f"{name} is missing"


def check_files(store: Store, receipts: Iterable[Receipt]) -> list[tuple[int, str]]:
    """Read every chunk and outcomes part, and hold it against its receipt; gives (slice, problem) pairs."""

    def chunk_problems(index: int, chunk: Chunk) -> list[tuple[int, str]]:
        facts = read_facts(store, chunk.name, num_samples=chunk.num_samples)
        return [(index, problem) for problem in check_chunk(chunk, facts, slice_index=index)]

    def outcomes_problems(index: int, part: OutcomesPart) -> list[tuple[int, str]]:
        facts = read_facts(store, part.name)
        return [(index, problem) for problem in check_outcomes(part, facts, slice_index=index)]

    checks: list[Callable[[], list[tuple[int, str]]]] = []
    for receipt in receipts:
        checks += [partial(chunk_problems, receipt.slice_index, chunk) for chunk in receipt.chunks]
        checks.append(partial(outcomes_problems, receipt.slice_index, receipt.outcomes))
    with ThreadPoolExecutor(NUM_READERS) as pool:
        return [problem for problems in pool.map(lambda check: check(), checks) for problem in problems]


def read_facts(store: Store, name: str, *, num_samples: int | None = None) -> Facts:
    """Read a whole file in blocks: its length, its checksum, and how many samples its header holds.

    Args:
        store: where it is.
        name: of the file.
        num_samples: as the receipt says, for a chunk, so that a damaged header is not read without end;
            None for a file that is no chunk.
    """
    digest, num_bytes, head = sha256(), 0, b""
    wanted = 0 if num_samples is None else table_bytes(num_samples)
    try:
        for block in store.read_blocks(name):
            digest.update(block)
            num_bytes += len(block)
            head += block[: max(0, wanted - len(head))]
    except ObjectMissingError:
        return Facts(num_bytes=None)
    except StoreError as error:
        return Facts(num_bytes=num_bytes, problem=error.problem)
    found, problem = None, None
    if num_samples is not None:
        try:
            found = count_samples(head, num_bytes=num_bytes)
        except ChunkFormatError as error:
            problem = str(error)
    return Facts(num_bytes=num_bytes, sha256=digest.hexdigest(), num_samples=found, problem=problem)
