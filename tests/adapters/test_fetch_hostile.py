"""Hostile servers: whatever bytes they send, a row ends with a result, and memory stays bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from evenshard.adapters.attempt import Terms
from evenshard.adapters.fetch import Body, Fetcher, FetchOptions
from evenshard.core.address import OpenHosts
from evenshard.core.outcome import Failure
from tests.support.misbehaving_web import FIXED, MisbehavingWeb
from tests.support.programs import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

NUM_MUTATIONS = 2_000
ODD_FIELDS = (b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Transfer-Encoding: gzip, chunked",
              b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Content-Encoding: deflate, gzip", b": x",
              b"Location: //[", b"Location: http://\xff\xfe", b"Retry-After: 1e400", b"Retry-After: \xb2",
              b"X: \r\r\n y",
              b"Connection: upgrade\r\nUpgrade: websocket", b"X-Robots-Tag: \xff\x00:,", b"Set-Cookie: " + b"a" * 5_000,
              b" folded", b"Content-Type: \x00")  # fmt: skip


@pytest.fixture
def web() -> Iterator[MisbehavingWeb]:
    """Give a server that misbehaves as each path says."""
    with MisbehavingWeb() as server:
        yield server


def mutated(data: bytes, random: Random) -> bytes:
    """Change an answer in one to four places, most of them in its head."""
    for _ in range(random.randint(1, 4)):
        at = random.randrange(min(len(data), 400)) if random.random() < 0.7 else random.randrange(len(data))
        match random.randrange(7):
            case 0:
                data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            case 1:
                data = data[: max(at, 1)]
            case 2:
                data = data[:at] + random.randbytes(random.randint(1, 30)) + data[at:]
            case 3:
                data = data[:at] + data[at + random.randint(1, 30) :] or b"x"
            case 4:
                data = data + data
            case 5:
                data = data.replace(b"\r\n", random.choice((b"\n", b"\r", b"\r\n\r\n", b"\n\r")), 1)
            case _:
                data = data.replace(b"\r\n", b"\r\n" + random.choice(ODD_FIELDS) + b"\r\n", 1)
    return data


def test_mutated_answers_each_give_a_result(web: MisbehavingWeb, caplog: pytest.LogCaptureFixture) -> None:
    """2,000 answers with bits flipped, cut, doubled, fields put in: a body or a reason each; no error is unforeseen."""
    random = Random(2026)
    names = sorted(name for name, data in FIXED.items() if data and name not in {"bomb", "endless-field"})
    web.mutated = {f"/m/{n}": mutated(FIXED[random.choice(names)], random) for n in range(NUM_MUTATIONS)}
    links = [f"{web.base}/m/{n}" for n in range(NUM_MUTATIONS)]
    options = FetchOptions(timeout_seconds=5, attempts=1, open_hosts=OpenHosts.parse(["127.0.0.1"]))
    with Fetcher(options) as fetcher:
        found = dict(fetcher.fetch(links, Terms(max_body_bytes=1_000_000)))

    assert list(range(NUM_MUTATIONS)) == sorted(found)
    assert {Body, Failure} == {type(result) for result in found.values()}
    assert "in an unforeseen way" not in caplog.text


def test_memory_is_bounded_when_bodies_have_no_end(web: MisbehavingWeb) -> None:
    """Endless, chunked without end, 10 GB declared, a bomb and drips: each ends by name within 100 MB of growth."""
    paths = ["endless", "endless-chunks", "declared", "bomb", "drip-body", "drip-head", "silent"]
    command = [sys.executable, "-m", "tests.support.fetch_growth", *(f"{web.base}/{path}" for path in ["ok", *paths])]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment(), timeout=120)
    seen = json.loads(done.stdout)

    assert [*["too-large"] * 3, None, *["too-slow"] * 3] == seen["reasons"]
    assert seen["grown_mb"] < 100
    assert seen["peak_mb"] < 700
