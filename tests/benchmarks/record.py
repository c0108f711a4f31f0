"""What every raw file of a benchmark says beside its figures: machine, cores, versions, when."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("evenshard", "prefect", "pyarrow", "polars", "pillow", "httpx", "aiohttp")


def circumstances() -> dict[str, Any]:
    """Give what the figures depend on."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in LIBRARIES},
        "network": "loopback",
    }


def write(path: Path | None, figures: dict[str, Any], *, limits: dict[str, tuple[float, float]] | None = None) -> None:
    """Print the figures, and write them with their circumstances if a path is given.

    Args:
        path: of the raw file.
        figures: what was measured.
        limits: name to (figure, largest one accepted); the program ends with 1 if one is passed.
    """
    held = {
        name: {"figure": figure, "limit": limit, "held": figure <= limit}
        for name, (figure, limit) in (limits or {}).items()
    }
    figures = {**figures, "limits": held} if held else figures
    text = json.dumps({**circumstances(), "figures": figures}, indent=1)
    print(json.dumps(figures, indent=1))  # noqa: T201 - a benchmark is a program
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    if not all(each["held"] for each in held.values()):
        raise SystemExit(1)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
