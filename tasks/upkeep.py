"""The steps of upkeep: failed rows planned again, bad slices found and put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect import task
from prefect.cache_policies import NO_CACHE

from evenshard.core.errors import ObjectMissingError, OptionError
from evenshard.core.manifest import Manifest
from evenshard.repair import begin_repair, finish_repair
from evenshard.retrying import Retry, begin_retry
from evenshard.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenshard.inspection import Findings


class Mending:
    """What was found bad, and what was heard while it was made again; a plain class, so that Prefect does not walk it.

    Args:
        findings: what was found.
        last_errors: what was last heard, by slice.
    """

    def __init__(self, findings: Findings, last_errors: Mapping[int, str]) -> None:
        self.findings, self.last_errors = findings, last_errors


@task(name="plan-failed", cache_policy=NO_CACHE, persist_result=False)
def plan_failed(destination: str) -> Retry:
    """Read all outcomes, and plan the rows whose failure may have passed."""
    return begin_retry(open_store(destination))


@task(name="look-over", cache_policy=NO_CACHE, persist_result=False)
def look_over(destination: str) -> Mending:
    """Read every byte of the data set; what follows from its manifest is put back at once."""
    try:
        return Mending(begin_repair(open_store(destination)), {})
    except ObjectMissingError as error:
        raise OptionError("destination", f"{destination} holds no published data set") from error


@task(name="finish-repair", cache_policy=NO_CACHE, persist_result=False)
def finish_mending(destination: str, mending: Mending) -> Manifest:
    """Check what was made again, and publish it."""
    return finish_repair(open_store(destination), mending.findings, mending.last_errors)
