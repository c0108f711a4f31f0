"""A program: fetches links in a process of its own, and prints how much memory that took.

Usage: python -m tests.support.fetch_growth LINK...

It prints JSON: `reasons` of the results, `grown_mb` of the peak since a first good body, `peak_mb` of all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from evenshard.adapters.attempt import Terms
from evenshard.adapters.fetch import Fetcher, FetchOptions
from evenshard.core.address import OpenHosts
from evenshard.core.outcome import Failure

TERMS = Terms(max_body_bytes=32_000_000)


def peak_mb() -> float:
    """Give the largest resident size since the last reset.

    Source: proc(5), VmHWM in /proc/self/status.
    """
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1_024


def main() -> None:
    """Warm up with the first link, and fetch the others."""
    first, *links = sys.argv[1:]
    options = FetchOptions(timeout_seconds=2, attempts=1, open_hosts=OpenHosts.parse(["127.0.0.1"]))
    with Fetcher(options) as fetcher:
        list(fetcher.fetch([first], TERMS))
        Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak counts from here
        before = peak_mb()
        found = dict(fetcher.fetch(links, TERMS))
    reasons = [str(found[at].reason) if isinstance(found[at], Failure) else None for at in range(len(links))]  # type: ignore[union-attr]
    print(json.dumps({"reasons": reasons, "grown_mb": peak_mb() - before, "peak_mb": peak_mb()}))  # noqa: T201


if __name__ == "__main__":
    main()
