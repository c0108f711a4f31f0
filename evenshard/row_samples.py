"""From the rows of a slice to one result for each: pictures, plain rows, or what a callable yields."""

from __future__ import annotations

from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from evenshard.adapters.image import Picture, make_picture
from evenshard.adapters.litdata import encode_leaf, encode_sample
from evenshard.adapters.parquet import OVERFLOWED, series_of
from evenshard.core.errors import TransformError
from evenshard.core.order import in_order
from evenshard.core.outcome import Failure, Outcome, Reason, Status
from evenshard.slices import Sampled, Samples, row_places
from evenshard.transforms import SampleEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import polars as pl

    from evenshard.adapters.fetch import Body, Fetcher
    from evenshard.core.recipe import Field
    from evenshard.slices import SliceJob

IMAGE: Final = "image"
CAPTION: Final = "caption"


def image_samples(job: SliceJob, frame: pl.DataFrame, fetcher: Fetcher, *, seen: Callable[[Outcome], None]) -> Samples:
    """Fetch each row's link and make its picture.

    Pictures are made in the order in which their bodies come, so that one slow host holds up no other
    row; samples come in row order.

    Args:
        job: the slice.
        frame: its rows.
        fetcher: what asks the web.
        seen: told of each row as it ends, in any order.
    """
    recipe = job.recipe
    rows = _Rows(job, frame)
    links: list[str | None] = series_of(frame, recipe.url_column or "").to_list()
    answers = fetcher.fetch(links, max_body_bytes=recipe.image.max_body_bytes)

    def ended() -> Iterator[tuple[int, Sampled]]:
        for index, answer in answers:
            sampled = rows.with_picture(index, links[index], answer)
            seen(sampled.outcome)
            yield index, sampled

    return Samples(rows=in_order(ended()), schema=lambda: recipe.schema)


def plain_samples(job: SliceJob, frame: pl.DataFrame, *, seen: Callable[[Outcome], None]) -> Samples:
    """Store the rows of the table as they are."""
    rows = _Rows(job, frame)

    def ended() -> Iterator[Sampled]:
        for index in range(frame.height):
            sampled = rows.plain(index)
            seen(sampled.outcome)
            yield sampled

    return Samples(rows=ended(), schema=lambda: job.recipe.schema)


class _Rows:
    """The rows of one slice by their position: identity, and the values of stored columns."""

    def __init__(self, job: SliceJob, frame: pl.DataFrame) -> None:
        self._image = job.recipe.image
        self._places = list(row_places(job.pieces))
        self._fields: tuple[Field, ...] = job.recipe.schema.fields if job.recipe.schema else ()
        self._overflowed: list[bool] = series_of(frame, OVERFLOWED).to_list()
        columns = {field.name: field.name for field in self._fields}
        if job.recipe.caption_column is not None:
            columns[CAPTION] = job.recipe.caption_column
        self._values: dict[str, list[Any]] = {
            field: series_of(frame, column).to_list() for field, column in columns.items() if column in frame.columns
        }

    def with_picture(self, index: int, link: str | None, answer: Body | Failure) -> Sampled:
        """Give the sample of one row, or why there is none."""
        seen: dict[str, Any] = {"url": link}
        if isinstance(answer, Failure):
            return self._failed(index, answer, seen)
        seen |= {"http_status": answer.http_status, "num_bytes": len(answer.data)}
        seen["sha256"] = sha256(answer.data).hexdigest()
        picture = make_picture(answer.data, self._image)
        if isinstance(picture, Failure):
            return self._failed(index, picture, seen)
        return self._encoded(index, {IMAGE: picture.data}, seen | _sizes(picture))

    def plain(self, index: int) -> Sampled:
        """Give the sample of one row of the table as it is."""
        return self._encoded(index, {}, {})

    def _encoded(self, index: int, given: dict[str, bytes], seen: dict[str, Any]) -> Sampled:
        if self._overflowed[index]:
            return self._failed(index, Failure(reason=Reason.VALUE_OUT_OF_RANGE), seen)
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
        where = f" (at {failure.url})" if failure.url else ""
        return Sampled(
            outcome=Outcome(
                source=source,
                row=row,
                status=Status.FAILED,
                reason=failure.reason,
                detail=failure.detail + where,
                **seen,
            )
        )


def _sizes(picture: Picture) -> dict[str, Any]:
    return {
        "width": picture.width,
        "height": picture.height,
        "original_width": picture.original_width,
        "original_height": picture.original_height,
        "original_format": picture.original_format,
    }


def callable_samples(
    job: SliceJob,
    frame: pl.DataFrame,
    transform: Callable[[pl.DataFrame], Iterable[object]],
    *,
    seen: Callable[[Outcome], None],
) -> Samples:
    """Store what a callable yields for the rows of a slice, in the order in which it yields.

    A callable does not say which row a sample came from, so these outcomes name no row.

    Raises:
        TransformError: it raised, yielded more samples than rows, or what no sample can be made of.
    """
    encoder = SampleEncoder(job.recipe.schema, hold_bytes=job.recipe.chunk_bytes)
    stored = Outcome(source=None, row=None, status=Status.STORED)
    left_out = Outcome(source=None, row=None, status=Status.FILTERED, reason=Reason.NOT_YIELDED)

    def rows() -> Iterator[Sampled]:
        num_samples = 0
        for ready in _encoded_samples(job, frame, transform, encoder):
            for sample in ready:
                num_samples += 1
                seen(stored)
                yield Sampled(outcome=stored, sample=sample)
        for _ in range(frame.height - num_samples):
            seen(left_out)
            yield Sampled(outcome=left_out)

    return Samples(rows=rows(), schema=lambda: encoder.schema)


def _encoded_samples(
    job: SliceJob, frame: pl.DataFrame, transform: Callable[[pl.DataFrame], Iterable[object]], encoder: SampleEncoder
) -> Iterator[list[bytes]]:
    """Take what a callable yields, one by one; gives the samples that are ready after each."""
    try:
        samples = iter(transform(frame.drop(OVERFLOWED)))
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
