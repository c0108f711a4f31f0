"""The surroundings of programs that tests start."""

from __future__ import annotations

import os
from pathlib import Path

from prefect.settings import PREFECT_API_URL

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """Give the environment of this process, with the checkout on the path and the tests' server set."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_API_URL": str(PREFECT_API_URL.value())}
