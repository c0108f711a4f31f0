"""Is what is stored what was signed for? Reads bytes; the rules are in `core.verify`."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from evenshard.adapters.litdata import count_samples, table_bytes
from evenshard.core.errors import ChunkFormatError, ObjectMissingError, StoreError, VerificationError
from evenshard.core.layout import receipt_name, receipts_prefix, slice_index_in
from evenshard.core.receipt import Chunk, Receipt
from evenshard.core.text import from_json
from evenshard.core.verify import Facts, check_chunk, check_outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenshard.core.receipt import OutcomesPart
    from evenshard.core.store import Store

NUM_READERS: Final = max(4, os.cpu_count() or 1)
"""Threads that hash files: hashing and reading let go of the interpreter lock, and one may wait for the disk."""


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


def check_files(store: Store, receipts: Iterable[Receipt]) -> list[tuple[Receipt, str]]:
    """Read every chunk and outcomes part, and hold it against its receipt; gives (receipt, problem) pairs."""
    checks = [(receipt, part) for receipt in receipts for part in (*receipt.chunks, receipt.outcomes)]
    with ThreadPoolExecutor(NUM_READERS) as pool:
        found = pool.map(lambda pair: _file_problems(store, *pair), checks)
        return [
            (receipt, problem) for (receipt, _), problems in zip(checks, found, strict=True) for problem in problems
        ]


def _file_problems(store: Store, receipt: Receipt, file: Chunk | OutcomesPart) -> list[str]:
    if isinstance(file, Chunk):
        facts = read_facts(store, file.name, num_samples=file.num_samples)
        return check_chunk(file, facts, slice_index=receipt.slice_index)
    return check_outcomes(file, read_facts(store, file.name), slice_index=receipt.slice_index)


def find_missing(store: Store, receipts: Iterable[Receipt]) -> list[tuple[Receipt, str]]:
    """Look whether every chunk and outcomes part is there with its size; nothing of them is read."""
    problems: list[tuple[Receipt, str]] = []
    for receipt in receipts:
        index = receipt.slice_index
        for chunk in receipt.chunks:
            found = check_chunk(chunk, Facts(num_bytes=store.size(chunk.name)), slice_index=index)
            problems += [(receipt, problem) for problem in found]
        part = receipt.outcomes
        found = check_outcomes(part, Facts(num_bytes=store.size(part.name)), slice_index=index)
        problems += [(receipt, problem) for problem in found]
    return problems


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
