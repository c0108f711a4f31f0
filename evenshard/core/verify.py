"""Do plan, receipts, chunks, manifest and index agree? Each check gives sentences, none if all is well."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenshard.core.manifest import make_manifest, make_part, receipt_of
from evenshard.core.plan import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from evenshard.core.manifest import Manifest, Part
    from evenshard.core.plan import Plan
    from evenshard.core.receipt import Chunk, OutcomesPart, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was seen of one stored file.

    Args:
        num_bytes: its length; None if it is not there.
        sha256: hash of all its bytes, hex; None if they were not read.
        num_samples: as its header says, for chunks; None if it was not read.
        problem: what is wrong with its header, or with reading it.
    """

    num_bytes: int | None
    sha256: str | None = None
    num_samples: int | None = None
    problem: str | None = None


def check_receipts(plan: Plan, receipts: Mapping[int, Receipt], *, indexes: Sequence[int] | None = None) -> list[str]:
    """Check that each slice has one receipt, and that its rows add up.

    Args:
        plan: what was to be done.
        receipts: by slice.
        indexes: slices that are looked at; all of the plan by default.
    """
    problems: list[str] = []
    fingerprint = plan.fingerprint
    for index in range(plan.num_slices) if indexes is None else indexes:
        if index >= plan.num_slices:
            continue  # named below
        receipt = receipts.get(index)
        if receipt is None:
            problems.append(f"slice {index} has no receipt")
        else:
            problems += _receipt_problems(plan, receipt, index=index, fingerprint=fingerprint)
    problems += [
        f"there is a receipt of slice {index}, which the plan has not" for index in receipts if index >= plan.num_slices
    ]
    schemas = {receipt.schema for receipt in receipts.values() if receipt.chunks}
    if len(schemas) > 1:
        problems.append(_schema_problem(receipts))
    return problems


def _receipt_problems(plan: Plan, receipt: Receipt, *, index: int, fingerprint: str) -> Iterator[str]:
    cut, counts = plan.slice_at(index), receipt.counts
    if receipt.fingerprint != fingerprint:
        yield f"slice {index} has a receipt of another plan: {receipt.fingerprint[:12]}, this one is {fingerprint[:12]}"
        return
    said = (receipt.slice_index, receipt.rank, receipt.start, receipt.stop)
    if said != (index, cut.rank, cut.start, cut.stop):
        yield f"slice {index} has a receipt of other rows: {receipt.start} to {receipt.stop}"
    if not plan.recipe.is_of_members and counts.planned != cut.num_rows:
        yield f"slice {index} has {cut.num_rows} rows, its receipt counts {counts.planned}"
    if not counts.adds_up:
        yield (
            f"slice {index}: {counts.stored} stored + {counts.num_filtered} filtered + {counts.num_failed} failed "
            f"are not the {counts.planned} rows planned"
        )
    if receipt.num_samples != counts.stored:
        yield f"slice {index}: its chunks hold {receipt.num_samples} samples, {counts.stored} rows were stored"
    if receipt.outcomes.num_rows != counts.planned:
        yield f"slice {index}: {receipt.outcomes.num_rows} outcomes for {counts.planned} rows"


def _schema_problem(receipts: Mapping[int, Receipt]) -> str:
    first = next(receipt for receipt in receipts.values() if receipt.chunks)
    other = next(receipt for receipt in receipts.values() if receipt.chunks and receipt.schema != first.schema)
    return (
        f"slices {first.slice_index} and {other.slice_index} have samples of different shape; "
        "let the transform declare its fields"
    )


def check_chunk(chunk: Chunk, facts: Facts, *, slice_index: int) -> list[str]:
    """Check one chunk against what its receipt says; names slice and chunk."""
    problem = _file_problem(num_bytes=chunk.num_bytes, sha256=chunk.sha256, facts=facts)
    if problem is None and facts.num_samples not in {None, chunk.num_samples}:
        problem = f"holds {facts.num_samples} samples instead of {chunk.num_samples}"
    return [f"slice {slice_index}: chunk {chunk.name} {problem}"] if problem else []


def check_outcomes(part: OutcomesPart, facts: Facts, *, slice_index: int) -> list[str]:
    """Check one outcomes file against what its receipt says."""
    problem = _file_problem(num_bytes=part.num_bytes, sha256=part.sha256, facts=facts)
    return [f"slice {slice_index}: outcomes {part.name} {problem}"] if problem else []


def _file_problem(*, num_bytes: int, sha256: str, facts: Facts) -> str | None:
    if facts.num_bytes is None:
        return "is missing"
    if facts.problem and facts.sha256 is None:
        return facts.problem
    if facts.num_bytes != num_bytes:
        return f"has {facts.num_bytes} bytes instead of {num_bytes}"
    if facts.problem:
        return facts.problem
    if facts.sha256 not in {None, sha256}:
        return "is altered: its checksum differs"
    return None


def check_manifest(manifest: Manifest) -> list[str]:
    """Check that a manifest follows from its own plans and receipts, to the last number."""
    problems = [problem for part in manifest.parts for problem in _part_problems(part)]
    if problems:
        return problems
    generations = [part.plan.generation for part in manifest.parts]
    own = [part.plan.mode for part in manifest.parts if part.plan.generation == manifest.generation]
    if generations != sorted(set(generations)) or generations[-1] > manifest.generation:
        return [f"generation {manifest.generation} cannot have parts of generations {generations}"]
    if manifest.made_by not in (own or (Mode.REPAIR, Mode.ROLLBACK)):
        return [f"generation {manifest.generation} cannot be made by {manifest.made_by}"]
    names = Counter(chunk.name for chunk in manifest.chunks)
    doubled = [f"chunk {name} is in the manifest {number} times" for name, number in names.items() if number > 1]
    again = make_manifest(
        manifest.parts,
        generation=manifest.generation,
        made_by=manifest.made_by,
        published_at=manifest.published_at,
    )
    return doubled if doubled or again == manifest else ["the manifest's totals do not follow from its slices"]


def _part_problems(part: Part) -> list[str]:
    plan = part.plan
    if plan.fingerprint != part.fingerprint:
        return [f"the manifest's settings make plan {plan.fingerprint[:12]}, it says {part.fingerprint[:12]}"]
    receipts = {entry.index: receipt_of(part, entry) for entry in part.slices}
    problems = check_receipts(plan, receipts, indexes=sorted(receipts))
    if not problems and make_part(plan, list(receipts.values())) != part:
        problems.append(f"what the manifest says of plan {part.fingerprint[:12]} does not follow from it")
    return problems
