"""Samples of a published set by their number."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from evenshard.adapters.chunk_files import ChunkFiles, MappedChunks, RangedChunks
from evenshard.adapters.litdata import SampleDecoder
from evenshard.adapters.local_store import LocalStore
from evenshard.core.chunk_list import ChunkList, Run
from evenshard.core.errors import (
    ChunkFormatError,
    DamagedChunkError,
    ObjectMissingError,
    OptionError,
    VerificationError,
)
from evenshard.core.recipe import Container
from evenshard.generations import list_generations, read_generation, read_manifest
from evenshard.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from evenshard.adapters.litdata import Value
    from evenshard.core.manifest import Manifest
    from evenshard.core.recipe import SampleSchema
    from evenshard.core.store import Store


class ChunkReader(Sequence[Any]):
    """The samples of one generation of a data set, in order; any of them by its number, as in a list.

    A sample is a dict, list or tuple of its fields, as the set declares: so code that was written for litdata's reader
    works on. Texts are `str`, numbers and truth values Python's own, pictures the bytes of their file (`pil` ones:
    width, height, length of the mode, mode, pixels). A missing value is what it is stored as; what that is for each
    type, `evenshard.core.recipe.NONE_VALUES` states.

    It holds some numbers for each chunk, and none for a sample. Chunks of a folder are mapped into memory, at most
    `MAX_MAPPED` at once; of other stores parts are read. It can be used by threads, after a fork, and pickled, and is
    a map-style dataset for torch as it stands.

    The manifest is read once, and chunks never change: whatever is published later, the reader goes on. When its
    chunks are swept, those that are mapped can still be read, and others raise `ObjectMissingError`.

    Args:
        address: of the set, as for the command line; or a store.
        generation: which state of it; the current one by default.
        memory_map: whether chunks of a folder are mapped. A mapped file that others cut, or that its disk cannot
            read, ends the process; without maps it is an error.
        manifest: of the generation, where it was read already.

    Raises:
        ObjectMissingError: no set is there.
        OptionError: the generation is not kept.
        VerificationError: the manifest is damaged.
    """

    def __init__(
        self,
        address: str | os.PathLike[str] | Store,
        generation: int | None = None,
        *,
        memory_map: bool = True,
        manifest: Manifest | None = None,
    ) -> None:
        store = open_store(os.fspath(address)) if isinstance(address, str | os.PathLike) else address
        manifest = manifest or _read(store, generation)
        try:
            self.chunk_list = ChunkList(manifest.chunks)
        except (ValueError, OverflowError) as error:
            raise VerificationError([f"{store.address}: its chunks cannot be: {error}"]) from None
        self.generation = manifest.generation
        self.schema: SampleSchema | None = manifest.schema
        """Shape of a sample; None if the set has none."""
        self._is_reopened = store is not address
        self._memory_map = memory_map
        self._begin(store)

    def _begin(self, store: Store) -> None:
        self._store = store
        fields = self.schema.fields if self.schema else ()
        self._decode = SampleDecoder([field.kind for field in fields])
        self.joined = _joiner(self.schema)
        """Makes a sample of its fields."""
        self._files: ChunkFiles = (
            MappedChunks(self.chunk_list, store)
            if self._memory_map and isinstance(store, LocalStore)
            else RangedChunks(self.chunk_list, store)
        )

    @property
    def is_mapped(self) -> bool:
        """Say whether chunks are mapped into memory."""
        return isinstance(self._files, MappedChunks)

    @property
    def address(self) -> str:
        """Where the set is."""
        return self._store.address

    @property
    def fields(self) -> dict[str, str]:
        """Names and types of a sample's fields, in order."""
        return {field.name: field.kind.value for field in self.schema.fields} if self.schema else {}

    @property
    def chunks(self) -> tuple[str, ...]:
        """Names of the chunks, in the order of their samples."""
        return self.chunk_list.names

    def __len__(self) -> int:
        return self.chunk_list.num_samples

    @overload
    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401 - of the declared shape

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        """Give one sample, or a list of them for a slice.

        Raises:
            IndexError: there is no sample of that number.
            DamagedChunkError: it cannot be read; names chunk and sample.
            ObjectMissingError: its chunk is gone.
        """
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        chunk, position = self.locate(index)
        run = Run(chunk, position, position + 1)
        (values,) = self.decoded(run, self.read(run))
        return self.joined(values)

    def __iter__(self) -> Iterator[Any]:
        """Give all samples in order."""
        return (self.joined(values) for chunk in range(len(self.chunks)) for values in self.values_in(chunk))

    def values_in(self, chunk: int) -> Iterator[list[Value]]:
        """Give the fields of all samples of a chunk, in order."""
        for run in self.chunk_list.runs_of(chunk):
            yield from self.decoded(run, self.read(run))

    def locate(self, index: int) -> tuple[int, int]:
        """Say where a sample is: number of its chunk in `chunks`, and position in that.

        Raises:
            IndexError: there is no sample of that number.
        """
        number, count = operator.index(index), len(self)
        if not -count <= number < count:
            raise IndexError(f"sample {number} is out of range: there are {count}")
        return self.chunk_list.locate(number % count)

    def read(self, run: Run) -> list[memoryview]:
        """Give samples that follow each other, encoded."""
        try:
            return self._files.samples(run)
        except ObjectMissingError as error:
            hint = f"if generation {self.generation} was swept, open the current one"
            raise ObjectMissingError(error.name, f"{error.problem}; {hint}") from None

    def decoded(self, run: Run, encoded: Iterable[memoryview]) -> Iterator[list[Value]]:
        """Give the fields of samples that follow each other; where they are, is for the error only."""
        position = run.start
        try:
            for position, data in enumerate(encoded, run.start):  # noqa: B007 - of the one that fails
                yield self._decode(data)
        except ChunkFormatError as error:
            raise DamagedChunkError(self.chunks[run.chunk], position, str(error)) from None

    def close(self) -> None:
        """Let go of all chunks. It can be used again."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Take along which chunks there are, and nothing of what they hold."""
        kept = ("chunk_list", "generation", "schema", "_is_reopened", "_memory_map")
        store = self.address if self._is_reopened else self._store
        return {"store": store, **{name: self.__dict__[name] for name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        store = state.pop("store")
        self.__dict__.update(state)
        self._begin(open_store(store) if self._is_reopened else store)


def _read(store: Store, generation: int | None) -> Manifest:
    if generation is None:
        return read_manifest(store)
    try:
        return read_generation(store, generation)
    except ObjectMissingError:
        kept = ", ".join(map(str, list_generations(store))) or "none"
        raise OptionError("generation", f"{generation} is not kept in {store.address}; kept are: {kept}") from None


def _joiner(schema: SampleSchema | None) -> Callable[[list[Value]], Any]:
    """Give what makes a sample of its values."""
    if schema is None or schema.container is Container.LIST:
        return list
    if schema.container is Container.TUPLE:
        return tuple
    names = [field.name for field in schema.fields]
    return lambda values: dict(zip(names, values, strict=True))
