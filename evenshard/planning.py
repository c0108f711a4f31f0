"""A plan from a source: files found, footers read, columns settled. Nothing is asked of the web."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, TypeAlias

from evenshard.adapters.at_hand import look_at
from evenshard.adapters.footers import read_footers
from evenshard.adapters.ranged import FileFacts
from evenshard.adapters.s3_settings import s3_settings
from evenshard.adapters.source_files import find_files
from evenshard.code_version import version_of
from evenshard.core.columns import all_columns, resolve_columns
from evenshard.core.errors import BadSourcesError, OptionError
from evenshard.core.partition import with_folder_columns
from evenshard.core.plan import LeftOut, Mode, OnChangedSource, Plan, Source
from evenshard.core.recipe import TEXTS, Column, Container, Field, ImageOptions, Kind, OnBadFile, Recipe, SampleSchema
from evenshard.core.source_address import scheme_of, shown
from evenshard.core.world import Remainder, World
from evenshard.source_access import reach_file
from evenshard.text_planning import find_archives, plan_archives
from evenshard.transforms import BUILT_IN, IMAGES, ROWS, find_callable, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenshard.adapters.footers import BadFile
    from evenshard.adapters.source_files import SourceFile
    from evenshard.core.columns import Footer


SHAPING_LIBRARIES: Final = ("evenshard", "pillow", "polars", "pyarrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for, before the table is known.

    Args:
        transform: `images`, `rows`, `texts`, or `package.module:callable`.
        given: the callable itself, where it is at hand; `transform` only names it then.
        url_column: column of links, for `images`.
        caption_column: column stored as `caption`, for `images`; None stores no caption.
        columns: columns stored beside (`images`), or read (`rows`, callables); None is none for `images`
            and all for the others.
        image: what is done to pictures.
        respect_opt_outs: whether bodies whose X-Robots-Tag asks not to be used are left out.
        chunk_bytes: size that a chunk does not pass.
        world: nodes and workers that share the rows.
        rows_per_slice: upper limit of a slice; for `texts`, of members.
        remainder: what becomes of rows that cannot be shared equally.
        mode: what it is for: create, append or overwrite.
        on_changed: what becomes of changed files, when appending.
        on_bad_file: whether bad files end the planning, or are left out and recorded.
    """

    transform: str = IMAGES
    given: object = None
    url_column: str = "url"
    caption_column: str | None = None
    columns: tuple[str, ...] | None = None
    image: ImageOptions = field(default_factory=ImageOptions)
    respect_opt_outs: bool = True
    chunk_bytes: int = 64_000_000
    world: World = field(default_factory=World)
    rows_per_slice: int = 2048
    remainder: Remainder = Remainder.SPREAD
    mode: Mode = Mode.CREATE
    on_changed: OnChangedSource = OnChangedSource.ERROR
    on_bad_file: OnBadFile = OnBadFile.FAIL


def make_plan(source: str | Sequence[str], request: Request, *, generation: int = 1) -> Plan:
    """Plan a table: every file is looked at, all bad ones are reported at once.

    Args:
        source: a file, a folder, a glob pattern, a file's address, or any of these in S3; or several of them, in the
            order given. For `texts` its files are archives, and their members the plan's rows.
        request: what is asked for.
        generation: which published state this makes.

    Raises:
        OptionError: there is no such source, or an option is out of range.
        BadSourcesError: files that are broken, lack a column, or have one of another type; all at once.
        ColumnError: no file has a wanted column.
    """
    return plan_files(find_all_files(source, request.transform), request, generation=generation)


def find_all_files(source: str | Sequence[str], transform: str = IMAGES) -> list[SourceFile]:
    """Give the files that one or several sources mean: archives for `texts`, else Parquet files."""
    named = [source] if isinstance(source, str) else source
    find = find_archives if transform == TEXTS else find_files
    files = [file for each in named for file in find(each)]
    if not files:
        raise OptionError("source", "no file is named; give at least one")
    _refuse_doubles(files)
    return files


def plan_files(files: Sequence[SourceFile], request: Request, *, generation: int = 1) -> Plan:
    """Plan certain files; otherwise as `make_plan`."""
    kept = _KEPT.get()
    question = (tuple(files), request, generation)
    for asked, plan in kept or ():
        if asked == question and _still_holds(plan):
            return plan
    made = _plan_files(files, request, generation)
    if kept is not None:
        kept.append((question, made))
    return made


@contextmanager
def plans_kept() -> Iterator[None]:
    """Have a plan made once only while the block lasts, however often it is asked for, unless its files change."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        _KEPT.reset(token)


def _still_holds(plan: Plan) -> bool:
    """Say whether the local files of a plan are as they were: minutes may have passed since."""
    try:
        return all(
            look_at(source.path).facts == FileFacts(num_bytes=source.num_bytes, version=source.version)
            for source in plan.sources
            if scheme_of(source.path) is None
        )
    except OSError:
        return False


_Kept: TypeAlias = "list[tuple[tuple[tuple[SourceFile, ...], Request, int], Plan]]"
_KEPT: ContextVar[_Kept | None] = ContextVar("_KEPT", default=None)


def _plan_files(files: Sequence[SourceFile], request: Request, generation: int) -> Plan:
    if request.transform == TEXTS:
        return plan_archives(files, request, generation=generation, libraries=libraries())
    found, bad = read_footers(files, reach=partial(reach_file, s3=s3_settings()))
    footers, columns, problems = _usable(with_folder_columns(found), bad, request)
    order = {file.path: index for index, file in enumerate(files)}
    left_out = sorted(problems, key=lambda problem: order[problem[0]])
    if left_out and (request.on_bad_file is OnBadFile.FAIL or not footers):
        raise BadSourcesError([(shown(path), reason) for path, reason in left_out])
    return Plan(
        sources=tuple(map(_source, footers)),
        world=request.world,
        recipe=_recipe(columns, request),
        rows_per_slice=request.rows_per_slice,
        remainder=request.remainder,
        generation=generation,
        left_out=tuple(LeftOut(path=path, reason=reason) for path, reason in left_out),
    )


def _recipe(columns: tuple[Column, ...], request: Request) -> Recipe:
    return Recipe(
        columns=columns,
        transform=request.transform,
        transform_version=version_of(_callable(request)),
        schema=_schema(columns, request),
        url_column=request.url_column if request.transform == IMAGES else None,
        caption_column=request.caption_column if request.transform == IMAGES else None,
        image=request.image,
        respect_opt_outs=request.respect_opt_outs,
        chunk_bytes=request.chunk_bytes,
        libraries=libraries(),
        on_bad_file=request.on_bad_file,
    )


def libraries() -> tuple[str, ...]:
    """Name the libraries whose other versions may write other bytes."""
    return tuple(f"{name} {version(name)}" for name in SHAPING_LIBRARIES)


def _refuse_doubles(files: Sequence[SourceFile]) -> None:
    seen: dict[str, str] = {}
    for path in (file.path for file in files):
        other = seen.setdefault(path if scheme_of(path) else os.path.realpath(path), path)
        if other is not path:
            raise OptionError("source", f"{shown(path)} is the same file as {shown(other)}; name each file once")


def _source(footer: Footer) -> Source:
    return Source(
        path=footer.path,
        num_rows=footer.num_rows,
        num_bytes=footer.num_bytes,
        version=footer.version,
        partition=footer.partition,
    )


def _usable(
    footers: Sequence[Footer], bad: Sequence[BadFile], request: Request
) -> tuple[Sequence[Footer], tuple[Column, ...], list[tuple[str, str]]]:
    """Settle on the files to use and their columns; gives them with the bad files, each with its reason.

    Raises:
        BadSourcesError: files that could not be looked at, of which nobody can say whether they are bad.
        ColumnError: no file has a wanted column.
    """
    unknown = [(shown(each.path), each.told) for each in bad if not each.may_be_left_out]
    skips = request.on_bad_file is OnBadFile.SKIP
    if unknown and skips:
        raise BadSourcesError(unknown)
    problems = {each.path: each.reason if skips else each.told for each in bad}
    columns: tuple[Column, ...] = ()
    while footers:
        columns, others = _columns(footers, request)
        for path, reason in others:
            problems[path] = f"{problems[path]}; {reason}" if path in problems else reason
        if not others:
            break
        footers = [footer for footer in footers if footer.path not in problems]  # of these, types may be others
    return footers, columns, list(problems.items())


def _columns(footers: Sequence[Footer], request: Request) -> tuple[tuple[Column, ...], list[tuple[str, str]]]:
    required, optional = _wanted(footers, request)
    texts = [request.url_column, request.caption_column or ""] if request.transform == IMAGES else []
    return resolve_columns(footers, required=required, optional=optional, texts=texts)


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
