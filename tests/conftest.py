"""Options of the test command, and the checkout on the path of started programs."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the Python of an environment in which the readers' own libraries are installed."""
    parser.addoption("--litdata-python", default=None, help="Python that has litdata and torch")


@pytest.fixture(scope="session")
def litdata_python(request: pytest.FixtureRequest) -> str:
    """Give that Python; a test that needs it fails without it."""
    python = request.config.getoption("--litdata-python")
    if not python:
        pytest.fail("give --litdata-python PATH, a Python with litdata and torch; .ci/run makes one")
    return str(Path(python).absolute())
