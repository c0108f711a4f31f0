"""Is what is stored what was signed for? Reads bytes; the rules are in `core.verify`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from evenshard.adapters.litdata import header_bytes, make_index, read_offsets
from evenshard.core.errors import ChunkFormatError, ObjectMissingError, StoreError, VerificationError
from evenshard.core.layout import INDEX, MANIFEST, generation_name, receipt_name
from evenshard.core.manifest import Manifest, receipt_of
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


def read_receipts(store: Store, *, generation: int, indexes: Iterable[int]) -> dict[int, Receipt]:
    """Read the receipts that are there, by slice.

    Raises:
        VerificationError: one is damaged.
    """
    indexes = list(indexes)
    with ThreadPoolExecutor(NUM_READERS) as pool:
        found = pool.map(lambda index: find_receipt(store, generation=generation, slice_index=index), indexes)
        return {index: receipt for index, receipt in zip(indexes, found, strict=True) if receipt is not None}


def read_manifest(store: Store) -> Manifest:
    """Read the manifest of the current generation.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: it is damaged.
    """
    try:
        return from_json(Manifest, store.read(MANIFEST))
    except ValueError as error:
        raise VerificationError([f"{MANIFEST} is damaged: {error}"]) from error


def verify(store: Store) -> Manifest:
    """Repeat on a published set all that publishing checked: every byte of every file is read.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: names everything that does not agree.
    """
    manifest = read_manifest(store)
    receipts = [receipt_of(manifest, entry) for entry in manifest.slices]
    problems = [*check_manifest(manifest), *_text_problems(store, manifest, receipts), *check_files(store, receipts)]
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


def check_files(store: Store, receipts: Iterable[Receipt]) -> list[str]:
    """Read every chunk and outcomes part, and hold it against its receipt."""

    def chunk_problems(index: int, chunk: Chunk) -> list[str]:
        return check_chunk(chunk, read_facts(store, chunk.name), slice_index=index)

    def outcomes_problems(index: int, part: OutcomesPart) -> list[str]:
        return check_outcomes(part, read_facts(store, part.name, chunk=False), slice_index=index)

    checks: list[Callable[[], list[str]]] = []
    for receipt in receipts:
        checks += [partial(chunk_problems, receipt.slice_index, chunk) for chunk in receipt.chunks]
        checks.append(partial(outcomes_problems, receipt.slice_index, receipt.outcomes))
    with ThreadPoolExecutor(NUM_READERS) as pool:
        return [problem for problems in pool.map(lambda check: check(), checks) for problem in problems]


def read_facts(store: Store, name: str, *, chunk: bool = True) -> Facts:
    """Read a whole file in blocks: its length, its checksum, and how many samples its header holds.

    Args:
        store: where it is.
        name: of the file.
        chunk: whether it is a chunk, and has a header.
    """
    digest, num_bytes, head = sha256(), 0, b""
    try:
        for block in store.read_blocks(name):
            digest.update(block)
            num_bytes += len(block)
            if chunk and len(head) < _head_wanted(head):
                head += block
    except ObjectMissingError:
        return Facts(num_bytes=None)
    except StoreError as error:
        return Facts(num_bytes=num_bytes, problem=error.problem)
    try:
        num_samples = len(read_offsets(head, num_bytes=num_bytes)) - 1 if chunk else None
    except ChunkFormatError as error:
        return Facts(num_bytes=num_bytes, sha256=digest.hexdigest(), problem=str(error))
    return Facts(num_bytes=num_bytes, sha256=digest.hexdigest(), num_samples=num_samples)


def _head_wanted(head: bytes) -> int:
    return header_bytes(head) if len(head) >= 4 else 4
