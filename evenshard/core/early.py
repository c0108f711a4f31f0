"""The first rows of a run: do so many fail that the rest is not worth its time?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import exp, log
from typing import TYPE_CHECKING, Final, Self

from evenshard.core.link import host_of, normalise_link
from evenshard.core.outcome import HINTS, Outcome, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

EARLY_ROWS: Final = 256
"""Rows at the start of each slice that are looked at: the first rows, not the first to end, since failures are fast."""

DOUBT: Final = 1e-5
"""How likely chance may be, at most, to explain a share of failures. A run looks many times, so this is small."""

WARNING_RATE: Final = 0.5
"""A larger share of failures is told, even where any share is accepted. Of public lists some 40 % fail in 2026."""

NUM_SHOWN: Final = 3
_NAMES: Final = (Reason.NAME_NOT_RESOLVED.value, Reason.NO_SUCH_HOST.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What became of the first rows of a slice, or of several.

    Args:
        num_rows: rows looked at.
        failed: how many failed, by reason.
        hosts: how many failed, by the host of their link.
    """

    num_rows: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    hosts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def at(cls, outcomes: Iterable[Outcome]) -> Self:
        """Look at outcomes."""
        seen = list(outcomes)
        failures = [outcome for outcome in seen if outcome.status is Status.FAILED]
        reasons = Counter(str(outcome.reason) for outcome in failures)
        hosts = Counter(host for host in map(_host, failures) if host)
        return cls(num_rows=len(seen), failed=reasons, hosts=Counter(dict(hosts.most_common(10 * NUM_SHOWN))))

    @classmethod
    def total(cls, looks: Iterable[Look]) -> Self:
        """Add up several."""
        num_rows, failed, hosts = 0, Counter[str](), Counter[str]()
        for look in looks:
            num_rows += look.num_rows
            failed += look.failed
            hosts += look.hosts
        return cls(num_rows=num_rows, failed=failed, hosts=hosts)

    @property
    def num_failed(self) -> int:
        """Rows that failed."""
        return self.failed.total()

    def is_beyond(self, rate: float) -> bool:
        """Say whether the share of failures is larger than a rate beyond reasonable chance.

        Args:
            rate: failed rows / rows that are accepted, 0 to 1.
        """
        return self.num_failed > 0 and self._chance_at(rate) < DOUBT

    def _chance_at(self, rate: float) -> float:
        """Bound the chance of so many failures or more, if each row fails at a rate.

        Source: Chernoff's bound of the binomial tail, exp(-n D(share || rate)).
        """
        share = self.num_failed / self.num_rows
        if share <= rate:
            return 1.0
        if rate == 0.0:
            return 0.0
        distance = share * log(share / rate)
        if share < 1.0:
            distance += (1 - share) * log((1 - share) / (1 - rate))
        return exp(-self.num_rows * distance)

    def told(self) -> str:
        """Say how many failed, why, and at which hosts, the most frequent first."""
        said = f"{self.num_failed} of the first {self.num_rows} rows failed: {reasons_told(self.failed)}"
        if self.hosts:
            hosts = ", ".join(f"{host} ({number})" for host, number in self.hosts.most_common(NUM_SHOWN))
            said += f"; most at {hosts}"
        return said


def reasons_told(failed: Counter[str]) -> str:
    """List the most frequent reasons with what they mean; where names are most of them, say what to look at."""
    told = [f"{number} x {reason} ({HINTS[Reason(reason)]})" for reason, number in failed.most_common(NUM_SHOWN)]
    if sum(failed[name] for name in _NAMES) > failed.total() / 2:
        told.append("most names did not resolve: look at this machine's name servers first")
    return "; ".join(told)


def _host(outcome: Outcome) -> str | None:
    link = normalise_link(outcome.url)
    return host_of(link) if isinstance(link, str) else None
