"""What to add to a published data set: files that it has not been made from yet, and rows to plan again."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from evenshard.adapters.ranged import UnreachableError
from evenshard.adapters.source_files import SourceFile
from evenshard.core.errors import BadSourcesError, DestinationError
from evenshard.core.plan import Mode, OnChangedSource, Plan, Source, differences
from evenshard.core.recipe import Kind
from evenshard.core.source_address import scheme_of, shown
from evenshard.planning import find_all_files, plan_files
from evenshard.source_access import reach_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evenshard.core.manifest import Manifest, Part
    from evenshard.planning import Request

MAY_DIFFER: Final = ("libraries", "transform_version", "columns")
"""What of a recipe may be another one when samples are added: versions; and columns, whose kinds the schema holds."""


WIDENED: Final = (Kind.INT, Kind.FLOAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What is to be added to a data set.

    Args:
        plan: how; None if nothing is new.
        gone: files that samples were made from and that are there no more; their samples stay.
    """

    plan: Plan | None
    gone: tuple[str, ...]


def plan_addition(source: str | Sequence[str], request: Request, current: Manifest) -> Addition:
    """Plan the files that are not in a data set yet, by path, size and version. Footers of the others are not read.

    Args:
        source: as for `make_plan`.
        request: what is asked for; it must be what the data set was made with.
        current: the data set's current state.

    Raises:
        BadSourcesError: changed files, where that is an error; bad files.
        DestinationError: the settings are others than the data set's.
    """
    files = find_all_files(source, request.transform)
    known = known_sources(current)
    changed = [file.path for file in files if file.path in known and not _is_same(file, known[file.path])]
    if changed and request.on_changed is OnChangedSource.ERROR:
        reason = "has changed since samples were made from it; --on-changed-source reingest takes it again"
        raise BadSourcesError([(shown(path), reason) for path in changed])
    fresh = [file for file in files if file.path not in known or file.path in changed]
    gone = _gone(known, files)
    if not fresh:
        return Addition(plan=None, gone=gone)
    plan = _with_known_kinds(plan_files(fresh, request, generation=current.generation + 1), current)
    _check_settings(current, plan)
    plan = replace(plan, mode=Mode.APPEND, base=current.generation)
    return Addition(plan=_without_old_rows(plan, current, changed) if changed else plan, gone=gone)


def _gone(known: Iterable[str], files: Sequence[SourceFile]) -> tuple[str, ...]:
    """Find local files that samples were made from and that are there no more; addresses are not asked."""
    there = {file.path for file in files}
    lost = (path for path in known if path not in there and scheme_of(path) is None)
    return tuple(sorted(path for path in lost if not os.path.exists(path)))  # noqa: PTH110 - see `_is_same`


def known_sources(manifest: Manifest) -> dict[str, Source]:
    """Give the files that a data set was made from, each as it was last."""
    return {source.path: source for part in manifest.parts for source in part.plan.sources}


def _is_same(file: SourceFile, source: Source) -> bool:
    """Say whether a file is what it was; one that cannot be looked at is another, and its footer will tell why."""
    if file.facts is not None:
        return (file.facts.num_bytes, file.facts.version) == (source.num_bytes, source.version)
    try:
        with reach_file(file) as at_hand:
            return (at_hand.facts.num_bytes, at_hand.facts.version) == (source.num_bytes, source.version)
    except (OSError, UnreachableError):
        return False


def is_same(source: Source) -> bool:
    """Say whether a file is still there as it was when planned."""
    return _is_same(SourceFile(path=source.path), source)


def _with_known_kinds(plan: Plan, current: Manifest) -> Plan:
    """Take whole numbers for those with a fraction where the data set has those: new files may hold no other."""
    kinds = {column.name: column.kind for column in current.parts[-1].plan.recipe.columns}
    wider = {column.name for column in plan.recipe.columns if (column.kind, kinds.get(column.name)) == WIDENED}
    schema = plan.recipe.schema
    if not wider or schema is None:
        return plan
    columns = tuple(replace(each, kind=Kind.FLOAT) if each.name in wider else each for each in plan.recipe.columns)
    fields = tuple(replace(each, kind=Kind.FLOAT) if each.name in wider else each for each in schema.fields)
    return replace(plan, recipe=replace(plan.recipe, columns=columns, schema=replace(schema, fields=fields)))


def _check_settings(current: Manifest, plan: Plan) -> None:
    before = current.parts[-1].plan
    may_differ = {name: getattr(plan.recipe, name) for name in MAY_DIFFER}
    old = replace(plan, recipe=replace(before.recipe, **may_differ))
    if old.fingerprint != plan.fingerprint:
        raise DestinationError(
            "the data set was made with other settings; what is added must be made with the same: "
            + "; ".join(differences(old, plan))
        )


def _without_old_rows(plan: Plan, current: Manifest, changed: Iterable[str]) -> Plan:
    """Plan changed files in place of their old rows.

    A slice may hold rows of several files. Those that hold old rows are given up, and their rows of other
    files planned again, before the new ones.
    """
    gone = set(changed)
    sources: list[Source] = []
    ranges: list[tuple[int, int, int]] = []
    replaces: list[tuple[int, int]] = []
    for part in current.parts:
        for index, kept in _slices_with(part, gone):
            replaces.append((part.plan.generation, index))
            for source, start, stop in kept:
                if source not in sources:
                    sources.append(source)
                ranges.append((sources.index(source), start, stop))
    ranges += [(len(sources) + index, 0, source.num_rows) for index, source in enumerate(plan.sources)]
    return replace(
        plan,
        sources=(*sources, *plan.sources),
        ranges=tuple(ranges),
        replaces=tuple(replaces),
        shard_starts=None,  # of archives that are gone nobody knows the members' sizes; shared by their number
    )


def _slices_with(part: Part, paths: set[str]) -> Iterable[tuple[int, list[tuple[Source, int, int]]]]:
    """Find slices that hold rows of certain files, with their rows of other files."""
    of = part.plan.sources
    for entry in part.slices:
        if any(of[rows.source].path in paths for rows in entry.rows):
            yield (
                entry.index,
                [(of[rows.source], rows.start, rows.stop) for rows in entry.rows if of[rows.source].path not in paths],
            )
