"""The address guard: no connection is opened to a host that a stranger's link must not reach."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from ipaddress import ip_address
from random import Random
from typing import TYPE_CHECKING

import pytest

from evenshard import clients as clients_module
from evenshard import download_image_with_retry
from evenshard.adapters import fetch as fetch_module
from evenshard.adapters import resolver as resolver_module
from evenshard.adapters.attempt import Terms
from evenshard.adapters.fetch import Body, Fetcher, FetchOptions
from evenshard.adapters.resolver import AddressRefusedError, CheckedResolver, Guard
from evenshard.clients import fetching_as
from evenshard.core.address import OpenHosts
from evenshard.core.outcome import Failure, Reason
from tests.support.misbehaving_web import MisbehavingWeb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.address import Address

PUBLIC = ip_address("127.0.0.2")
"""Stands for a public address: tests reach none."""

LOOPBACK = ip_address("127.0.0.1")


@pytest.fixture
def inside() -> Iterator[MisbehavingWeb]:
    """Give a server on loopback that no stranger's link may reach."""
    with MisbehavingWeb() as server:
        yield server


@pytest.fixture
def outside() -> Iterator[MisbehavingWeb]:
    """Give a server at the address that stands for a public one."""
    with MisbehavingWeb(host=str(PUBLIC)) as server:
        yield server


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[Address]]]:
    """Have names resolve to what a test says: one list of addresses after the other, the last one for ever."""
    answers: dict[str, list[list[Address]]] = {}

    async def look_up(_threads: object, name: str) -> list[Address]:
        if name not in answers:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return answers[name].pop(0) if len(answers[name]) > 1 else answers[name][0]

    def guard(open_hosts: OpenHosts) -> Guard:
        return Guard(open_hosts, public=lambda address: address == PUBLIC)

    monkeypatch.setattr(resolver_module, "_ask_system", look_up)
    monkeypatch.setattr(fetch_module, "Guard", guard)
    return answers


def fetch(links: list[str], *, allow: tuple[str, ...] = ()) -> list[Body | Failure]:
    """Fetch links, one after another, on a fetcher of their own."""
    chosen = FetchOptions(open_hosts=OpenHosts.parse(allow), concurrency=1, attempts=2)
    with Fetcher(chosen, random=Random(1)) as fetcher:
        return [result for link in links for _, result in fetcher.fetch([link], Terms(max_body_bytes=1_000_000))]


def reasons(results: list[Body | Failure]) -> list[str]:
    """Give each result in a word."""
    return [str(result.reason) if isinstance(result, Failure) else "body" for result in results]


FORMS = ("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.0.0.1.", "[::1]",
         "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "localhost")  # fmt: skip


def test_no_connection_is_opened_when_the_address_is_not_public(inside: MisbehavingWeb) -> None:
    """Loopback in any form, by default: each row is refused by name, and nothing is seen at the listening side."""
    port = inside.base.rpartition(":")[2]
    found = fetch([f"http://{form}:{port}/ok" for form in FORMS])

    assert [Reason.ADDRESS_REFUSED] * len(FORMS) == reasons(found)
    assert inside.num_connections == 0


def test_connection_is_opened_when_the_user_opened_the_host(inside: MisbehavingWeb) -> None:
    """An opened host is asked; another spelling of its address is not."""
    port = inside.base.rpartition(":")[2]
    found = fetch([f"http://{host}:{port}/ok" for host in ("127.0.0.1", "127.0.0.2")], allow=("127.0.0.1",))

    assert ["body", Reason.ADDRESS_REFUSED] == reasons(found)


def test_name_is_refused_when_it_resolves_inside(inside: MisbehavingWeb, names: dict[str, list[list[Address]]]) -> None:
    """A stranger's name for an inside address is refused even where that address is open; an opened name is not."""
    names["evil.example"] = names["files.corp"] = [[LOOPBACK]]
    port = inside.base.rpartition(":")[2]
    links = [f"http://{name}:{port}/ok" for name in ("evil.example", "files.corp")]
    found = fetch(links, allow=("127.0.0.1", "files.corp"))

    assert [Reason.ADDRESS_REFUSED, "body"] == reasons(found)
    assert isinstance(found[0], Failure)
    assert "evil.example resolves to 127.0.0.1, no public address" in found[0].detail
    assert inside.num_connections == 1


def test_second_resolution_is_never_asked_for_when_a_name_rebinds(
    inside: MisbehavingWeb, outside: MisbehavingWeb, names: dict[str, list[list[Address]]]
) -> None:
    """A name that resolves first to a public and then to a loopback address reaches the public one alone."""
    names["rebind.example"] = [[PUBLIC], [LOOPBACK]]
    ports = [web.base.rpartition(":")[2] for web in (outside, inside, outside)]
    found = fetch([f"http://rebind.example:{port}/ok" for port in ports])

    assert ["body", Reason.CONNECT_FAILED, "body"] == reasons(found)
    assert (0, 2) == (inside.num_connections, outside.num_connections)
    assert [[LOOPBACK]] == names["rebind.example"][-1:]


def test_only_public_addresses_are_connected_to_when_a_name_has_both(
    inside: MisbehavingWeb, names: dict[str, list[list[Address]]]
) -> None:
    """Of several addresses the inside ones are left out, also when the public one does not answer."""
    names["both.example"] = [[LOOPBACK, PUBLIC]]
    port = inside.base.rpartition(":")[2]
    found = fetch([f"http://both.example:{port}/ok"])

    assert [Reason.CONNECT_FAILED] == reasons(found)
    assert inside.num_connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "evil.example"])
def test_redirect_is_refused_when_it_leads_inside(
    inside: MisbehavingWeb, outside: MisbehavingWeb, names: dict[str, list[list[Address]]], host: str
) -> None:
    """A public server that sends on to an inside address: the hop is refused, and its address named."""
    names["good.example"], names["evil.example"] = [[PUBLIC]], [[LOOPBACK]]
    port = inside.base.rpartition(":")[2]
    start = f"http://good.example:{outside.base.rpartition(':')[2]}"
    (found,) = fetch([f"{start}/to?http://{host}:{port}/ok"])

    assert isinstance(found, Failure)
    assert (Reason.ADDRESS_REFUSED, 302) == (found.reason, found.http_status)
    assert f":{port}/ok" in (found.url or "")
    assert (0, 1) == (inside.num_connections, outside.num_connections)


def test_one_look_up_is_shared_when_many_ask_for_one_name() -> None:
    """Requests for one name share one look-up; the answer holds; a cancelled request leaves it going."""
    asked: list[str] = []
    gate = asyncio.Event()

    async def look_up(name: str) -> list[Address]:
        asked.append(name)
        await gate.wait()
        return [LOOPBACK]

    async def scenario() -> list[int]:
        resolver = CheckedResolver(Guard(OpenHosts.parse(["a.example"])), look_up=look_up)
        first = asyncio.create_task(resolver.resolve("a.example", 80))
        others = [asyncio.create_task(resolver.resolve("a.example", port)) for port in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        gate.set()
        found = await asyncio.gather(*others)
        found.append(await resolver.resolve("a.example", 99))
        await resolver.close()
        return [each["port"] for result in found for each in result]

    assert [0, 1, 2, 3, 4, 99] == asyncio.run(scenario())
    assert ["a.example"] == asked


def test_bare_address_is_refused_by_the_guard_itself() -> None:
    """A bare address never reaches a resolver, so the guard looks at the host as it stands."""
    guard = Guard(OpenHosts())
    guard.check_literal("1.1.1.1")
    guard.check_literal("name.example")
    with pytest.raises(AddressRefusedError, match=r"169\.254\.169\.254 is no public address"):
        guard.check_literal("169.254.169.254")


def test_no_host_stays_open_after_the_run_that_opened_it(inside: MisbehavingWeb) -> None:
    """Single fetches ask as the run does while it lasts; runs that disagree open nothing for each other."""
    opened = FetchOptions(open_hosts=OpenHosts.parse(["127.0.0.1"]))
    link = f"{inside.base}/ok"
    assert download_image_with_retry(0, link)[0] is None
    with fetching_as(opened):
        body, _ = download_image_with_retry(0, link)
        assert body is not None
        with fetching_as(FetchOptions()):
            assert download_image_with_retry(0, link)[0] is None
        assert download_image_with_retry(0, link, timeout=7.5)[0] is not None
    refused, reason = download_image_with_retry(0, link)
    assert (None, 2) == (refused, inside.num_connections)
    assert "address-refused" in str(reason)


def test_one_client_serves_all_time_outs() -> None:
    """A callable that passes its time left makes no client for each."""
    for number in range(50):
        download_image_with_retry(0, "http://127.0.0.1:1/", timeout=1 + number / 100)
    assert 1 >= sum(thread.name == "evenshard-fetch" for thread in threading.enumerate()) - before_threads()


def before_threads() -> int:
    """Count the clients that other tests of this process left open on purpose."""
    return len(clients_module._OWN.clients._fetchers) - 1


def test_program_ends_while_names_are_still_looked_up() -> None:
    """Name servers that never answer hold up neither the fetcher's end nor the program's."""
    program = (
        "import socket, time\n"
        "socket.getaddrinfo = lambda *a, **k: time.sleep(60)\n"
        "from evenshard.adapters.fetch import Fetcher, FetchOptions\n"
        "from evenshard.adapters.attempt import Terms\n"
        "with Fetcher(FetchOptions(timeout_seconds=0.2, attempts=1)) as fetcher:\n"
        "    found = list(fetcher.fetch([f'http://{n}.example/' for n in range(100)], Terms(max_body_bytes=9)))\n"
        "print({str(result.reason) for _, result in found})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    assert ("{'too-slow'}\n", "") == (done.stdout, done.stderr)
