"""From the rows of a slice to one result for each: pictures, plain rows, or what a callable yields."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from evenshard.adapters.attempt import Terms
from evenshard.adapters.image import Picture, make_picture
from evenshard.adapters.litdata import encode_leaf, encode_sample
from evenshard.adapters.parquet import series_of
from evenshard.adapters.spill import Spill, Spilled
from evenshard.core.errors import TransformError
from evenshard.core.link import normalise_link
from evenshard.core.order import in_order
from evenshard.core.outcome import Failure, Outcome, Reason, Status
from evenshard.slices import Sampled, Samples, row_places
from evenshard.transforms import SampleEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from evenshard.adapters.fetch import Body, Fetcher
    from evenshard.adapters.parquet import Rows
    from evenshard.core.recipe import Field
    from evenshard.slices import SliceJob

IMAGE: Final = "image"
CAPTION: Final = "caption"
ORIGINAL: Final = ("original_width", "original_height", "original_format")
"""What a picture, or a failure whose header was read, says of what came."""


def image_samples(job: SliceJob, read: Rows, fetcher: Fetcher, *, seen: Callable[[int, Outcome], None]) -> Samples:
    """Fetch each row's link and make its picture. Rows at fault are not asked for.

    Pictures are made in the order in which their bodies come, so that one slow host holds up no other
    row; samples come in row order.

    Args:
        job: the slice.
        read: its rows.
        fetcher: what asks the web.
        seen: told of each row as it ends, in any order: its position in the slice, and its outcome.
    """
    recipe = job.recipe
    rows = _Rows(job, read)
    links: list[str | None] = series_of(read.frame, recipe.url_column or "").to_list()
    asked = [None if index in read.faults else link for index, link in enumerate(links)]
    answers = fetcher.fetch(asked, Terms.of(recipe))

    def ended(spill: Spill) -> Iterator[tuple[int, tuple[Sampled, bytes | Spilled | None]]]:
        for index, answer in answers:
            sampled = rows.with_picture(index, links[index], answer)
            seen(index, sampled.outcome)
            sample = None if sampled.sample is None else spill.keep(sampled.sample)
            yield index, (replace(sampled, sample=None), sample)

    def ordered() -> Iterator[Sampled]:
        with Spill() as spill:
            for sampled, sample in in_order(ended(spill)):
                yield sampled if sample is None else replace(sampled, sample=spill.take(sample))

    return Samples(rows=ordered(), schema=lambda: recipe.schema)


def plain_samples(job: SliceJob, read: Rows, *, seen: Callable[[int, Outcome], None]) -> Samples:
    """Store the rows of the table as they are."""
    rows = _Rows(job, read)

    def ended() -> Iterator[Sampled]:
        for index in range(read.frame.height):
            sampled = rows.plain(index)
            seen(index, sampled.outcome)
            yield sampled

    return Samples(rows=ended(), schema=lambda: job.recipe.schema)


class _Rows:
    """The rows of one slice by their position: identity, and the values of stored columns."""

    def __init__(self, job: SliceJob, read: Rows) -> None:
        self._image = job.recipe.image
        self._places = list(row_places(job.pieces))
        self._fields: tuple[Field, ...] = job.recipe.schema.fields if job.recipe.schema else ()
        self._faults, frame = read.faults, read.frame
        columns = {field.name: field.name for field in self._fields}
        if job.recipe.caption_column is not None:
            columns[CAPTION] = job.recipe.caption_column
        self._values: dict[str, list[Any]] = {
            field: series_of(frame, column).to_list() for field, column in columns.items() if column in frame.columns
        }

    def with_picture(self, index: int, link: str | None, answer: Body | Failure) -> Sampled:
        """Give the sample of one row, or why there is none."""
        seen: dict[str, Any] = {"url": link}
        if index in self._faults:
            return self._failed(index, self._faults[index], seen)
        if isinstance(answer, Failure):
            return self._failed(index, answer, seen)
        seen |= {"http_status": answer.http_status, "num_bytes": len(answer.data)}
        seen["sha256"] = sha256(answer.data).hexdigest()
        picture = make_picture(answer.data, self._image)
        if isinstance(picture, Failure):
            moved = None if answer.url == normalise_link(link) else answer.url
            return self._failed(index, replace(picture, url=moved), seen)
        return self._encoded(index, {IMAGE: picture.data}, seen | _sizes(picture))

    def plain(self, index: int) -> Sampled:
        """Give the sample of one row of the table as it is, or why there is none."""
        return self.at_fault(index) if index in self._faults else self._encoded(index, {}, {})

    def at_fault(self, index: int) -> Sampled:
        """Say why a row that could not be read as it stands gives no sample."""
        return self._failed(index, self._faults[index], {})

    def _encoded(self, index: int, given: dict[str, bytes], seen: dict[str, Any]) -> Sampled:
        leaves = [
            encode_leaf(field.kind, given[field.name] if field.name in given else self._values[field.name][index])
            for field in self._fields
        ]
        try:
            sample = encode_sample(leaves)
        except ValueError as error:
            return self._failed(index, Failure(reason=Reason.SAMPLE_TOO_LARGE, detail=str(error)), seen)
        source, row = self._places[index]
        return Sampled(outcome=Outcome(source=source, row=row, status=Status.STORED, **seen), sample=sample)

    def _failed(self, index: int, failure: Failure, seen: dict[str, Any]) -> Sampled:
        source, row = self._places[index]
        if failure.http_status is not None:
            seen = seen | {"http_status": failure.http_status}
        if failure.original_format is not None:
            seen = seen | {name: getattr(failure, name) for name in ORIGINAL}
        where = f" (at {failure.url})" if failure.url else ""
        return Sampled(
            outcome=Outcome(
                source=source,
                row=row,
                status=failure.status,
                reason=failure.reason,
                detail=failure.detail + where,
                **seen,
            )
        )


def _sizes(picture: Picture) -> dict[str, Any]:
    return {name: getattr(picture, name) for name in ("width", "height", *ORIGINAL)}


def callable_samples(
    job: SliceJob,
    read: Rows,
    transform: Callable[[pl.DataFrame], Iterable[object]],
    *,
    seen: Callable[[int, Outcome], None],
) -> Samples:
    """Store what a callable yields for the rows of a slice, in the order in which it yields.

    Rows at fault are kept from it and fail by name, before the others. A callable does not say which row a
    sample came from, so the outcomes of the others name no row.

    Raises:
        TransformError: it raised, yielded more samples than rows, or what no sample can be made of.
    """
    encoder = SampleEncoder(job.recipe.schema, hold_bytes=job.recipe.chunk_bytes)
    stored = Outcome(source=None, row=None, status=Status.STORED)
    left_out = Outcome(source=None, row=None, status=Status.FILTERED, reason=Reason.NOT_YIELDED)

    places, frame = _Rows(job, read), _sound(read)

    def rows() -> Iterator[Sampled]:
        ended = count()
        for index in sorted(read.faults):
            sampled = places.at_fault(index)
            seen(next(ended), sampled.outcome)
            yield sampled
        num_samples = 0
        for ready in _encoded_samples(job, frame, transform, encoder):
            for sample in ready:
                seen(next(ended), stored)
                num_samples += 1
                yield Sampled(outcome=stored, sample=sample)
        for _ in range(frame.height - num_samples):
            seen(next(ended), left_out)
            yield Sampled(outcome=left_out)

    return Samples(rows=rows(), schema=lambda: encoder.schema)


def _sound(read: Rows) -> pl.DataFrame:
    if not read.faults:
        return read.frame
    return read.frame.filter(pl.Series([index not in read.faults for index in range(read.frame.height)]))


def _encoded_samples(
    job: SliceJob, frame: pl.DataFrame, transform: Callable[[pl.DataFrame], Iterable[object]], encoder: SampleEncoder
) -> Iterator[list[bytes]]:
    """Take what a callable yields, one by one; gives the samples that are ready after each."""
    try:
        samples = iter(transform(frame) if frame.height else ())
        for number in count(1):
            sample = _next_of(samples)
            if sample is _END:
                break
            if number > frame.height:
                problem = f"more samples than the slice's {frame.height} rows; yield one a row at most"
                raise ValueError(problem)  # noqa: TRY301 - told as what the callable itself raises
            ready = encoder.add(sample)
            if ready:
                yield ready
    except _EndedError as ended:
        raise TransformError(job.slice.index, f"{job.recipe.transform}: {ended}") from ended
    except Exception as error:  # a stranger's code: whatever it raises belongs to this slice, by name
        raise TransformError(job.slice.index, f"{job.recipe.transform}: {type(error).__name__}: {error}") from error
    yield encoder.finish()


class _EndedError(Exception):
    """A callable tried to end the program."""


def _next_of(samples: Iterator[object]) -> object:
    try:
        return next(samples, _END)
    except (SystemExit, GeneratorExit) as error:
        raise _EndedError(f"{type(error).__name__}: {error}") from error


_END: Final = object()
