"""A plan from a source: files found, footers read, columns settled. Nothing is asked of the web."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from evenshard.adapters.parquet import read_footers
from evenshard.adapters.source_files import find_files
from evenshard.core.columns import all_columns, resolve_columns
from evenshard.core.errors import BadSourcesError, OptionError
from evenshard.core.plan import Plan, Source
from evenshard.core.recipe import Column, Container, Field, ImageOptions, Kind, Recipe, SampleSchema
from evenshard.core.world import Remainder, World
from evenshard.transforms import BUILT_IN, IMAGES, ROWS, find_callable, schema_of, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenshard.core.columns import Footer


SHAPING_LIBRARIES: Final = ("evenshard", "pillow", "polars")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for, before the table is known.

    Args:
        transform: `images`, `rows`, or `package.module:callable`.
        given: the callable itself, where it is at hand; `transform` only names it then.
        url_column: column of links, for `images`.
        caption_column: column stored as `caption`, for `images`; None stores no caption.
        columns: columns stored beside (`images`), or read (`rows`, callables); None is none for `images`
            and all for the others.
        image: what is done to pictures.
        chunk_bytes: size that a chunk does not pass.
        world: nodes and workers that share the rows.
        rows_per_slice: upper limit of a slice.
        remainder: what becomes of rows that cannot be shared equally.
    """

    transform: str = IMAGES
    given: object = None
    url_column: str = "url"
    caption_column: str | None = None
    columns: tuple[str, ...] | None = None
    image: ImageOptions = field(default_factory=ImageOptions)
    chunk_bytes: int = 64_000_000
    world: World = field(default_factory=World)
    rows_per_slice: int = 2048
    remainder: Remainder = Remainder.SPREAD


def make_plan(source: str | Sequence[str], request: Request, *, generation: int = 1) -> Plan:
    """Plan a table: every file is looked at, all bad ones are reported at once.

    Args:
        source: a file, a folder or a glob pattern; or several files, in the order given.
        request: what is asked for.
        generation: which published state this makes.

    Raises:
        OptionError: there is no such source, or an option is out of range.
        BadSourcesError: files that are broken, or lack a column.
        ColumnError: no file has a wanted column.
    """
    named = [source] if isinstance(source, str) else source
    paths = [path for each in named for path in find_files(each)]
    if not paths:
        raise OptionError("source", "no file is named; give at least one Parquet file")
    _refuse_doubles(paths)
    footers, broken = read_footers(paths)
    if broken:
        raise BadSourcesError([*broken, *_lacking(footers, request)])
    columns = _columns(footers, request)
    recipe = Recipe(
        columns=columns,
        transform=request.transform,
        transform_version=version_of(_callable(request)),
        schema=_schema(columns, request),
        url_column=request.url_column if request.transform == IMAGES else None,
        caption_column=request.caption_column if request.transform == IMAGES else None,
        image=request.image,
        chunk_bytes=request.chunk_bytes,
        libraries=tuple(f"{name} {version(name)}" for name in SHAPING_LIBRARIES),
    )
    return Plan(
        sources=tuple(map(_source, footers)),
        world=request.world,
        recipe=recipe,
        rows_per_slice=request.rows_per_slice,
        remainder=request.remainder,
        generation=generation,
    )


def _refuse_doubles(paths: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for path in paths:
        other = seen.setdefault(os.path.realpath(path), path)
        if other is not path:
            raise OptionError("source", f"{path} is the same file as {other}; name each file once")


def _source(footer: Footer) -> Source:
    return Source(path=footer.path, num_rows=footer.num_rows, num_bytes=footer.num_bytes, version=footer.version)


def _columns(footers: Sequence[Footer], request: Request) -> tuple[Column, ...]:
    required, optional = _wanted(footers, request)
    columns, problems = resolve_columns(footers, required=required, optional=optional)
    if problems:
        raise BadSourcesError(problems)
    return columns


def _lacking(footers: Sequence[Footer], request: Request) -> list[tuple[str, str]]:
    """Find what else is wrong with the sound files of a table that has broken ones."""
    required, _ = _wanted(footers, request)
    return resolve_columns(footers, required=required, optional=())[1] if footers else []


def _wanted(footers: Sequence[Footer], request: Request) -> tuple[list[str], list[str]]:
    if request.transform == IMAGES:
        caption = [] if request.caption_column is None else [request.caption_column]
        return [request.url_column], [*caption, *(request.columns or ())]
    return [], list(all_columns(footers) if request.columns is None else request.columns)


def _schema(columns: Sequence[Column], request: Request) -> SampleSchema | None:
    kinds = {column.name: column.kind for column in columns}
    if request.transform == ROWS:
        return SampleSchema(
            container=Container.DICT, fields=tuple(Field(name=name, kind=kind) for name, kind in kinds.items())
        )
    if request.transform != IMAGES:
        return schema_of(_callable(request))
    if kinds[request.url_column] is not Kind.STR:
        raise OptionError("url_column", f"{request.url_column!r} holds {kinds[request.url_column]} values, not links")
    fields = [Field(name="image", kind=Kind.BYTES)]
    if request.caption_column is not None:
        if kinds[request.caption_column] is not Kind.STR:
            raise OptionError("caption_column", f"{request.caption_column!r} holds no text")
        fields.append(Field(name="caption", kind=Kind.STR))
    fields += [Field(name=name, kind=kinds[name]) for name in request.columns or ()]
    return SampleSchema(container=Container.DICT, fields=tuple(fields))


def _callable(request: Request) -> object:
    if request.transform in BUILT_IN:
        return None
    return find_callable(request.transform) if request.given is None else request.given
