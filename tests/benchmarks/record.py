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


def write(path: Path | None, figures: dict[str, Any]) -> None:
    """Print the figures, and write them with their circumstances if a path is given."""
    text = json.dumps({**circumstances(), "figures": figures}, indent=1)
    print(json.dumps(figures, indent=1))  # noqa: T201 - a benchmark is a program
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
