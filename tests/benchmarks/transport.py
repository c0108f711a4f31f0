"""CPU and rate of a request by transport: plain httpx, httpx-aiohttp, ours, and bare aiohttp as the floor.

Usage: python -m tests.benchmarks.transport [--out FILE] [--requests 3000] [--repeats 5]

Bodies of 75 kB from nginx on loopback (Debian's package nginx-light), whole and by 8, 32 and 128 connections.
Each cell is a process of its own; the transports take turns. CPU is the client's, user and system together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport as LibraryTransport

from evenshard.adapters.resolver import Guard
from evenshard.adapters.transport import AiohttpTransport
from evenshard.core.address import OpenHosts
from tests.benchmarks.record import write

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

BODY_BYTES = 75_000
CONNECTIONS = (8, 32, 128)
NAMES = ("httpx", "httpx-aiohttp", "evenshard", "aiohttp")
CONFIG = """
worker_processes 1;
daemon off;
pid {root}/pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000; server {{ listen 127.0.0.1:{port}; root {root}; }} }}
"""


@contextmanager
def nginx() -> Iterator[str]:
    """Serve one body; gives its address."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        root = Path(folder)
        root.chmod(0o755)
        (root / "body.bin").write_bytes(os.urandom(BODY_BYTES))
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        (root / "conf").write_text(CONFIG.format(root=root, port=port))
        server = subprocess.Popen([program, "-p", folder, "-c", str(root / "conf")])
        try:
            yield f"http://127.0.0.1:{port}/body.bin"
        finally:
            server.terminate()
            server.wait()


def _httpx_transport(name: str, connections: int) -> httpx.AsyncBaseTransport:
    context = ssl.create_default_context()
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    if name == "httpx":
        return httpx.AsyncHTTPTransport(verify=context, limits=limits)
    if name == "httpx-aiohttp":
        return LibraryTransport(verify=context, limits=limits)
    return AiohttpTransport(context, max_connections=connections, guard=Guard(OpenHosts.parse(["127.0.0.1"])))


async def ask(name: str, address: str, *, connections: int, requests: int) -> float:
    """Ask so many times over so many connections; gives the seconds."""
    if name == "aiohttp":
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:

            async def bare() -> int:
                async with session.get(address) as answer:
                    return len(await answer.read())

            return await _timed(bare, connections=connections, requests=requests)
    async with _httpx_transport(name, connections) as transport:

        async def one() -> int:
            answer = await transport.handle_async_request(
                httpx.Request("GET", address, headers={"accept-encoding": "identity"})
            )
            try:
                return sum([len(part) async for part in answer.aiter_raw()])
            finally:
                await answer.aclose()

        return await _timed(one, connections=connections, requests=requests)


async def _timed(one: Callable[[], Awaitable[int]], *, connections: int, requests: int) -> float:
    left = iter(range(requests))

    async def work() -> None:
        for _ in left:
            if await one() != BODY_BYTES:
                raise SystemExit("a body was not whole")

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(connections)))
    return time.perf_counter() - began


def cell(name: str, address: str, *, connections: int, requests: int) -> dict[str, float]:
    """Measure one cell in this process, after a tenth of it to warm up."""
    asyncio.run(ask(name, address, connections=connections, requests=requests // 10))
    before = resource.getrusage(resource.RUSAGE_SELF)
    seconds = asyncio.run(ask(name, address, connections=connections, requests=requests))
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_ms_per_request": 1000 * cpu / requests, "requests_per_second": requests / seconds}


def _in_own_process(name: str, address: str, *, connections: int, requests: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.transport", "--cell", name, address]
    command += [str(connections), "--requests", str(requests)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measured(requests: int, repeats: int) -> list[dict[str, Any]]:
    """Measure all cells, the transports by turns; medians, with the least and the most."""
    rows = []
    with nginx() as address:
        for connections in CONNECTIONS:
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in NAMES}
            for _ in range(repeats):
                for name in NAMES:
                    runs[name].append(_in_own_process(name, address, connections=connections, requests=requests))
            rows += [_summary(name, connections, runs[name]) for name in NAMES]
    return rows


def _summary(name: str, connections: int, runs: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"transport": name, "connections": connections}
    for figure in ("cpu_ms_per_request", "requests_per_second"):
        values = sorted(run[figure] for run in runs)
        row[figure] = [round(each, 3) for each in (values[0], statistics.median(values), values[-1])]
    return row


def main() -> None:
    """Run all cells, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cell", nargs=3, metavar=("NAME", "ADDRESS", "CONNECTIONS"))
    options = parser.parse_args()
    if options.cell:
        name, address, connections = options.cell
        print(json.dumps(cell(name, address, connections=int(connections), requests=options.requests)))  # noqa: T201
        return
    load = os.getloadavg()
    rows = measured(options.requests, options.repeats)
    figures = {"minimum, median, maximum of": options.repeats, "requests each": options.requests, "rows": rows}
    write(options.out, figures | {"load before and after": [load, os.getloadavg()]})


if __name__ == "__main__":
    main()
