"""One Prefect server on loopback for all tests of flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import flows  # noqa: F401 - makes Prefect's settings before its first import
from tests.support.pictures import jpeg
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def prefect_server() -> Iterator[None]:
    """Start Prefect's own test server; on an empty home it takes up to half a minute."""
    from prefect.testing.utilities import prefect_test_harness  # noqa: PLC0415 - seconds, for these tests only

    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture(autouse=True)
def loopback_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open this machine to links, as a person does who serves pictures on it."""
    monkeypatch.setenv("EVENSHARD_ALLOW_HOSTS", "127.0.0.1")


@pytest.fixture
def web() -> Iterator[Web]:
    """Serve a good picture at any path that a test does not set."""
    picture = jpeg()
    with Web(lambda _: Answer(body=picture)) as server:
        yield server
