"""Options of the test command, the checkout on the path of started programs, and S3 servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from evenshard import stores
from evenshard.adapters.s3_settings import reaching_s3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.store import Store
    from tests.support.s3_places import S3Place, Servers

S3_KINDS: Final = ("moto", "seaweed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what not every machine has, or has time for."""
    parser.addoption("--litdata-python", default=None, help="Python that has litdata and torch")
    parser.addoption("--kills", default=10, type=int, help="runs that are killed; 60 take some 15 minutes")
    parser.addoption("--s3-server", default="seaweed", choices=["seaweed", "ceph", "moto"], help="the usual one")
    parser.addoption("--ceph", action="store_true", help="ask a Ceph gateway, too; Debian's packages must be there")
    parser.addoption(
        "--s3-runs", type=int, default=16, help="runs of a job while its S3 server does what it should not"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have what asks for a kind of store done with each."""
    if "store_kind" in metafunc.fixturenames:
        servers = [*S3_KINDS, *(["ceph"] if metafunc.config.getoption("--ceph") else [])]
        metafunc.parametrize("store_kind", ["local", "memory", *servers, "lock"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a Ceph gateway can show, where there is none."""
    if not config.getoption("--ceph"):
        items[:] = [item for item in items if item.get_closest_marker("ceph") is None]


@pytest.fixture(scope="session")
def litdata_python(request: pytest.FixtureRequest) -> str:
    """Give a Python that has the readers' own libraries; a test that needs it fails without it."""
    python = request.config.getoption("--litdata-python")
    if not python:
        pytest.fail("give --litdata-python PATH, a Python with litdata and torch; .ci/run makes one")
    return str(Path(python).absolute())


@pytest.fixture
def s3_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have S3 asked with the tests' credentials and no others."""
    from tests.support.s3_servers import ENVIRONMENT  # noqa: PLC0415 - boto3 takes a second that most need not wait

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3_forgotten(s3_environment: None) -> Iterator[None]:  # noqa: ARG001 - it comes first
    """Have clients and stores made anew, before a test with other credentials and after it."""
    from evenshard.adapters.s3_client import forget_clients  # noqa: PLC0415 - see above

    forget_clients()
    stores.forget_stores()
    yield
    forget_clients()
    stores.forget_stores()


@pytest.fixture(scope="session")
def s3_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Keep servers, started when they are first asked for, until all tests are done."""
    from tests.support.s3_places import Servers  # noqa: PLC0415 - see above

    with Servers(tmp_path_factory.mktemp, usual=request.config.getoption("--s3-server")) as servers:
        yield servers


@pytest.fixture
def s3_place(s3_servers: Servers, s3_environment: None) -> Iterator[S3Place]:  # noqa: ARG001 - it sets the environment
    """Give a place of a test's own, on SeaweedFS by default, and have S3 reached there."""
    place = s3_servers.place()
    with reaching_s3(place.settings):
        yield place


@pytest.fixture
def store(store_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each kind of store, empty; `lock` is a server that does not keep the conditions of writes."""
    from evenshard.adapters.local_store import LocalStore  # noqa: PLC0415 - see above
    from tests.support.memory_store import MemoryStore  # noqa: PLC0415 - see above

    if store_kind == "local":
        yield LocalStore(tmp_path / "a store")
        return
    if store_kind == "memory":
        yield MemoryStore()
        return
    from evenshard.adapters.s3_store import S3Store  # noqa: PLC0415 - see above
    from evenshard.core.s3_place import S3Settings  # noqa: PLC0415 - see above
    from tests.support.s3_proxy import S3Proxy  # noqa: PLC0415 - see above

    request.getfixturevalue("s3_environment")
    place = request.getfixturevalue("s3_servers").place("moto" if store_kind == "lock" else store_kind)
    if store_kind != "lock":
        yield place.store(part_bytes=5 * 2**20)
        return
    with S3Proxy(place.server.endpoint_url, strip=(b"if-none-match", b"if-match")) as proxy:
        yield S3Store(place.address, S3Settings(endpoint_url=proxy.endpoint_url), part_bytes=5 * 2**20)
