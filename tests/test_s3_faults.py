"""A small job again and again, while what stands between it and its S3 server does what networks do.

All 200 runs of the promise, with figures: `pytest -n0 tests/test_s3_faults.py --s3-runs 200 --log-cli-level=INFO`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from evenshard import source_access
from evenshard.adapters import s3_store
from evenshard.adapters.local_store import LocalStore
from evenshard.adapters.s3_settings import reaching_s3
from evenshard.core import s3_failure
from evenshard.core.errors import EvenshardError
from evenshard.core.s3_place import S3Settings
from evenshard.inspection import verify
from tests.support.rows_set import append_rows
from tests.support.s3_proxy import Fault, S3Proxy, Schedule
from tests.support.sets import published_bytes, read_set
from tests.support.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.s3_places import S3Place, Servers

_LOG: Final = logging.getLogger(__name__)
LARGE_BYTES: Final = 5 * 2**20
RATES: Final = {
    Fault.SLOW_DOWN: 0.06,
    Fault.BROKEN: 0.03,
    Fault.CUT_UPLOAD: 0.05,
    Fault.DELAY: 0.02,
    Fault.DROP_REPLY: 0.05,
    Fault.CUT_REPLY: 0.03,
}
MAX_TRIES: Final = 20


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waits between attempts take no time to speak of, and parts be as small as S3 allows."""
    monkeypatch.setattr(s3_failure, "FIRST_WAIT_SECONDS", 0.0005)
    monkeypatch.setattr(s3_failure, "MAX_WAIT_SECONDS", 0.005)
    monkeypatch.setattr(s3_store, "PART_BYTES", LARGE_BYTES)


def put_table(place: S3Place, folder: Path, *, large: bool) -> str:
    """Put a table of two files into S3: eleven rows, one of them perhaps so large that its chunk goes up in parts."""
    for number, rows in enumerate((range(7), range(7, 11))):
        bodies = [bytes([row]) * (LARGE_BYTES if large and row == 5 else 100) for row in rows]
        path = write_table(folder / f"{large}/{number}.parquet", {"row": list(rows), "body": bodies})
        place.put(f"{number}.parquet", path.read_bytes())
    return place.address


@pytest.fixture
def proxy(s3_place: S3Place) -> Iterator[S3Proxy]:
    """Stand before the server."""
    with S3Proxy(s3_place.server.endpoint_url) as proxy:
        yield proxy


def do_job(table: str, destination: Any) -> int:  # noqa: ANN401 - a folder, or an address
    """Make a set of one file, and add the other; begins anew after each failure. Gives the number of failures."""
    num_failed = 0
    for source in (f"{table}/0.parquet", f"{table}/"):
        while True:
            try:
                append_rows(source, destination)
            except EvenshardError:
                num_failed += 1
                if num_failed > MAX_TRIES:
                    raise
            else:
                break
    return num_failed


@pytest.mark.filterwarnings("ignore:tzname")  # of dates that break off
def test_nothing_is_lost_or_double_when_the_server_and_the_line_fail(
    proxy: S3Proxy, s3_servers: Servers, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Runs under seeded faults, some with an outage that ends the run, give the bytes of one without, and no more."""
    tables = {large: put_table(s3_servers.place(), tmp_path, large=large) for large in (False, True)}
    for large, table in tables.items():
        do_job(table, tmp_path / f"set{large}")
    sets = {large: LocalStore(tmp_path / f"set{large}") for large in tables}
    expected = {large: (store.names(), published_bytes(store)) for large, store in sets.items()}
    drawn: Counter[Fault] = Counter()
    num_failed = 0
    for seed in range(pytestconfig.getoption("--s3-runs")):
        place, large = s3_servers.place(), seed % 4 == 0
        proxy.faults = schedule = Schedule(seed, RATES, outage_within=150, outage=seed % 3 * 12)
        source_access._STAND_INS.close()
        with reaching_s3(S3Settings(endpoint_url=proxy.endpoint_url)):
            num_failed += do_job(tables[large], place.address)
        store = place.store()
        store.delete_unfinished(before=time.time() + 60)
        names, files = expected[large]
        assert (seed, names, []) == (seed, place.names(), place.uploads())
        assert (seed, files) == (seed, published_bytes(store))
        assert (seed, 11) == (seed, verify(store).counts.stored)
        drawn += schedule.drawn
    assert list(range(11)) == [sample["row"] for sample in read_set(place.store())]
    assert set(Fault) == set(drawn)
    assert num_failed > 0
    _LOG.info("%d faults, %d times begun anew: %s", drawn.total(), num_failed, dict(drawn))
