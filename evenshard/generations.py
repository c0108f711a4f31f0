"""The published states of a data set: the current one, and those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenshard.core.errors import ObjectMissingError, VerificationError
from evenshard.core.layout import GENERATIONS, MANIFEST, generation_in, generation_name, plan_name
from evenshard.core.manifest import FORMAT_VERSION, Manifest
from evenshard.core.plan import Plan
from evenshard.core.text import from_json

if TYPE_CHECKING:
    from evenshard.core.store import Store


def read_manifest(store: Store, name: str = MANIFEST) -> Manifest:
    """Read a manifest, that of the current generation by default.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: it is damaged, or of another version of this software.
    """
    data = store.read(name)
    try:
        manifest = from_json(Manifest, data)
    except ValueError as error:
        if f'"format_version": {FORMAT_VERSION},'.encode() not in data:
            problem = f"{name} is damaged, or of another version: this reads format version {FORMAT_VERSION}"
            raise VerificationError([problem]) from error
        raise VerificationError([f"{name} is damaged: {error}"]) from error
    if manifest.format_version != FORMAT_VERSION:
        raise VerificationError([f"{name} has format version {manifest.format_version}; this reads {FORMAT_VERSION}"])
    return manifest


def find_current(store: Store) -> Manifest | None:
    """Read the current generation; None where nothing is published."""
    try:
        return read_manifest(store)
    except ObjectMissingError:
        return None


def read_generation(store: Store, generation: int) -> Manifest:
    """Read an earlier state, or the current one, by its number."""
    return read_manifest(store, generation_name(generation))


def list_generations(store: Store) -> list[int]:
    """Give the numbers of all kept generations, ascending."""
    return sorted(number for number in map(generation_in, store.names(GENERATIONS)) if number)


def last_generation(store: Store) -> int:
    """Give the highest number among kept generations; 0 if there is none."""
    return max(list_generations(store), default=0)


def read_plan(store: Store, generation: int) -> Plan | None:
    """Read the stored plan of a generation; None if nobody planned it.

    Raises:
        VerificationError: it is damaged.
    """
    name = plan_name(generation)
    try:
        return from_json(Plan, store.read(name))
    except ObjectMissingError:
        return None
    except ValueError as error:
        raise VerificationError([f"{name} is damaged: {error}"]) from error
