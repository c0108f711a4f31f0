"""Transforms: from the rows of a slice to samples.

`images` and `rows` are built in, and `texts` for archives. Any other is a callable that takes a polars
DataFrame, the rows of one slice in order, and yields samples: dicts, lists or tuples of numbers, texts,
bytes, booleans, PIL pictures and None. It yields at most one sample per row. A class is called without
arguments once in each worker and its instance is used from then on, so it may keep a pool or count.

A callable may declare its fields, `fields = {"image": "bytes", "caption": "str"}`; it should if a field
can be None in a whole slice. Else each slice finds the types from all of its samples.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, Final, cast

from PIL import Image

from evenshard.adapters.image import pil_payload
from evenshard.adapters.litdata import encode_leaf, encode_sample
from evenshard.core.errors import OptionError
from evenshard.core.recipe import TEXTS, Container, Field, Kind, SampleSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import polars as pl

IMAGES: Final = "images"
ROWS: Final = "rows"
BUILT_IN: Final = (IMAGES, ROWS, TEXTS)


def load_transform(name: str) -> Callable[[pl.DataFrame], Iterable[object]]:
    """Import `package.module:callable`; a class gives a new instance.

    Raises:
        OptionError: there is no such module or callable.
    """
    found = find_callable(name)
    return cast("Callable[[pl.DataFrame], Iterable[object]]", found() if inspect.isclass(found) else found)


def find_callable(name: str) -> Any:  # noqa: ANN401 - whatever the module holds
    """Import what `package.module:callable` names.

    Raises:
        OptionError: there is no such module, or nothing in it of that name that can be called.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise OptionError("transform", f"{name!r} is not images, rows, or package.module:callable")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a caller's module may raise anything when it is imported
        problem = f"module {module_name!r} cannot be imported: {type(error).__name__}: {error}"
        raise OptionError("transform", problem) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise OptionError("transform", f"module {module_name!r} has no callable {attribute!r}")
    return found


def schema_of(transform: object) -> SampleSchema | None:
    """Read the `fields` attribute of a callable."""
    fields = getattr(transform, "fields", None)
    if fields is None:
        return None
    try:
        declared = tuple(Field(name=name, kind=Kind(kind)) for name, kind in dict(fields).items())
    except (TypeError, ValueError) as error:
        kinds = ", ".join(Kind)
        raise OptionError("transform", f"its fields must map names to one of {kinds}: {error}") from error
    return SampleSchema(container=Container.DICT, fields=declared)


class SampleEncoder:
    """Turns what a callable yields into encoded samples of one shape, as they come.

    While the type of a field is unknown, because it was always None, samples are held; once they pass
    `hold_bytes`, such a field is taken for text.

    Args:
        schema: declared shape, or None to find it from the samples.
        hold_bytes: bytes of samples that are held at most for a type to be found.
    """

    def __init__(self, schema: SampleSchema | None, *, hold_bytes: int = 64_000_000) -> None:
        self._declared = schema
        self._names = [field.name for field in schema.fields] if schema else None
        self._container = schema.container if schema else None
        self._kinds: list[Kind | None] = [field.kind for field in schema.fields] if schema else []
        self._hold_bytes = hold_bytes
        self._held: list[list[bytes | None]] = []
        self._num_held_bytes = 0

    def add(self, sample: object) -> list[bytes]:
        """Take one sample; gives those that are ready, in order.

        Raises:
            TypeError, ValueError: it is of another shape or type than those before.
        """
        names, values = self._split(sample)
        if self._names is None:
            self._names, self._kinds = names, [None] * len(names)
        if names != self._names and self._container is Container.DICT and sorted(names) == sorted(self._names):
            given = dict(zip(names, values, strict=True))  # a dict's order is of no meaning
            names, values = self._names, [given[name] for name in self._names]
        if names != self._names:
            raise ValueError(f"a sample has the fields {names}, those before had {self._names}")
        leaves = [self._pack(index, value) for index, value in enumerate(values)]
        self._held.append(leaves)
        self._num_held_bytes += sum(len(leaf) for leaf in leaves if leaf is not None)
        return self.finish() if None not in self._kinds or self._num_held_bytes > self._hold_bytes else []

    def finish(self) -> list[bytes]:
        """Give what is held; fields that were always None are texts from here on."""
        kinds = [kind or Kind.STR for kind in self._kinds]
        self._kinds = list(kinds)
        ready = [
            encode_sample(
                [encode_leaf(kind, None) if leaf is None else leaf for leaf, kind in zip(leaves, kinds, strict=True)]
            )
            for leaves in self._held
        ]
        self._held, self._num_held_bytes = [], 0
        return ready

    @property
    def schema(self) -> SampleSchema | None:
        """The shape of the samples so far; None if there was none."""
        if self._declared is not None or self._names is None:
            return self._declared
        fields = tuple(
            Field(name=name, kind=kind or Kind.STR) for name, kind in zip(self._names, self._kinds, strict=True)
        )
        return SampleSchema(container=self._container or Container.DICT, fields=fields)

    def _split(self, sample: object) -> tuple[list[str], list[object]]:
        match sample:
            case dict():
                kind, names, values = Container.DICT, [str(name) for name in sample], list(sample.values())
            case list() | tuple():
                kind = Container.LIST if isinstance(sample, list) else Container.TUPLE
                names, values = [str(number) for number in range(len(sample))], list(sample)
            case _:
                raise TypeError(f"a sample must be a dict, list or tuple, not {type(sample).__name__}")
        if self._declared is not None and kind is not Container.DICT and len(values) == len(self._names or ()):
            return list(self._names or ()), values
        if self._container not in {None, kind}:
            raise TypeError(f"a sample is a {kind}, those before were a {self._container}")
        self._container = kind
        return names, values

    def _pack(self, index: int, value: object) -> bytes | None:
        if value is None:
            return None
        kind, value = _kind_and_value(value)
        known = self._kinds[index]
        if known is Kind.FLOAT and kind is Kind.INT:
            kind = Kind.FLOAT
        if known not in {None, kind}:
            raise TypeError(f"field {(self._names or [])[index]!r} is {kind} here and {known} elsewhere")
        self._kinds[index] = kind
        return encode_leaf(kind, value)


_KINDS: Final = (
    (bool, Kind.BOOL),  # before int, which it is a kind of
    (int, Kind.INT),
    (float, Kind.FLOAT),
    (str, Kind.STR),
    (bytes, Kind.BYTES),
    (bytearray, Kind.BYTES),
    (memoryview, Kind.BYTES),
)


def _kind_and_value(value: object) -> tuple[Kind, object]:
    """Give the field type of a value, and the value as plain Python."""
    if isinstance(value, Image.Image):
        return Kind.PIL, pil_payload(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy scalar
        value = value.item()
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name, bytes(cast("bytes", value)) if name is Kind.BYTES else value
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored; yield bytes, text, numbers or pictures")
