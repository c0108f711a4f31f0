"""Names to addresses: looked up once in a run, checked, and connected to as they were checked."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from evenshard.core.address import is_public, literal_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from evenshard.core.address import Address, OpenHosts

MAX_NAMES: Final = 65_536
"""Names whose addresses are kept; beyond it the oldest goes."""

NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""Answers of a resolver that works. Others, such as EAI_AGAIN, are its own trouble."""


class AddressRefusedError(Exception):
    """A host is no public address, and was not opened by the user."""


class Guard:
    """Refuses hosts that a stranger's link must not reach.

    Args:
        open_hosts: what the user has opened.
        public: says whether an address is public; another one only for tests, which have no public address.
    """

    def __init__(self, open_hosts: OpenHosts, *, public: Callable[[Address], bool] = is_public) -> None:
        self._open_hosts = open_hosts
        self._public = public

    def check_literal(self, host: str) -> None:
        """Check a host that may be a bare address, which no resolver will see.

        Raises:
            AddressRefusedError: it is one that must not be reached.
        """
        address = literal_address(host)
        if address is not None and not self._open_hosts.include(host) and not self._public(address):
            raise AddressRefusedError(f"{host} is no public address")

    def allowed(self, name: str, addresses: list[Address]) -> list[Address]:
        """Keep the addresses of a name that may be connected to.

        Raises:
            AddressRefusedError: there is none.
        """
        if self._open_hosts.include(name):
            return addresses
        kept = [address for address in addresses if self._public(address)]
        if not kept:
            raise AddressRefusedError(f"{name} resolves to {', '.join(map(str, addresses[:4]))}, no public address")
        return kept


class CheckedResolver(AbstractResolver):
    """What aiohttp asks for addresses. It connects to what it is given here, and looks nothing up itself.

    The first answer for a name, or that there is no such name, holds for the life of the resolver. Requests
    for one name share one look-up, which goes on when a request's time is over.

    Args:
        guard: checks every answer.
        look_up: asks the system's resolver; another one only for tests.
    """

    def __init__(self, guard: Guard, *, look_up: Callable[[str], Awaitable[list[Address]]] | None = None) -> None:
        self._guard = guard
        self._threads = LookUpThreads()
        self._look_up = look_up or partial(_ask_system, self._threads)
        self._known: dict[str, list[Address] | int] = {}  # addresses, or the resolver's code for no such name
        self._asking: dict[str, asyncio.Task[list[Address]]] = {}

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - the interface's; all are given
    ) -> list[ResolveResult]:
        """Give the addresses of a name that may be connected to.

        Raises:
            OSError: it has none, or the system's resolver did not say.
            AddressRefusedError: none of them may be connected to.
        """
        addresses = self._known.get(host)
        if addresses is None:
            addresses = await asyncio.shield(self._task(host))
        if isinstance(addresses, int):
            raise socket.gaierror(addresses, "there is no such name")
        return [_result(host, port, address) for address in self._guard.allowed(host, addresses)]

    async def close(self) -> None:
        """Leave look-ups that still run to themselves."""
        for task in self._asking.values():
            task.cancel()
        self._threads.close()

    def _task(self, name: str) -> asyncio.Task[list[Address]]:
        if name not in self._asking:
            task = asyncio.get_running_loop().create_task(self._look_up_once(name))
            task.add_done_callback(_take_note)
            self._asking[name] = task
        return self._asking[name]

    async def _look_up_once(self, name: str) -> list[Address]:
        try:
            addresses = await self._look_up(name)
        except OSError as error:
            if is_no_such_name(error):
                self._keep(name, error.errno or socket.EAI_NONAME)
            raise  # the next request may find a resolver in trouble well again
        finally:
            del self._asking[name]
        self._keep(name, addresses)
        return addresses

    def _keep(self, name: str, found: list[Address] | int) -> None:
        while len(self._known) >= MAX_NAMES:
            del self._known[next(iter(self._known))]
        self._known[name] = found


def _take_note(task: asyncio.Task[list[Address]]) -> None:
    """Look at how a look-up ended, since its requests may all be gone, and asyncio complains if nobody does."""
    if not task.cancelled():
        task.exception()


class LookUpThreads:
    """Threads that ask the system's resolver, which blocks.

    Daemons, unlike those of an executor: a look-up that no name server answers takes half a minute, and must
    hold up neither the end of the program nor, as long as there are threads, other names.
    """

    def __init__(self, max_threads: int = 1_024) -> None:
        self._max_threads = max_threads
        self._lock = threading.Lock()
        self._num_threads = self._num_idle = 0
        self._names: SimpleQueue[tuple[str, asyncio.AbstractEventLoop, asyncio.Future[Any]] | None] = SimpleQueue()

    def ask(self, name: str) -> asyncio.Future[Any]:
        """Give what `socket.getaddrinfo` will say of a name."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._names.put((name, loop, future))
        with self._lock:
            if self._num_idle:
                self._num_idle -= 1
            elif self._num_threads < self._max_threads:
                self._num_threads += 1
                threading.Thread(target=self._serve, name="evenshard-look-up", daemon=True).start()
        return future

    def close(self) -> None:
        """Have each thread end when it is free."""
        for _ in range(self._num_threads):
            self._names.put(None)

    def _serve(self) -> None:
        while (asked := self._names.get()) is not None:
            name, loop, future = asked
            found, error = _look_up(name)
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_settle, future, found, error)
            with self._lock:
                self._num_idle += 1


def _look_up(name: str) -> tuple[list[Any], Exception | None]:
    try:
        return socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG), None
    except (OSError, UnicodeError) as error:
        return [], error


def _settle(future: asyncio.Future[Any], found: list[Any], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(found)
    else:
        future.set_exception(error)


def is_no_such_name(error: BaseException) -> bool:
    """Say whether a look-up failed because there is no such name, not because nobody knew."""
    return isinstance(error, socket.gaierror) and error.errno in NO_SUCH_NAME


async def _ask_system(threads: LookUpThreads, name: str) -> list[Address]:
    found = await threads.ask(name)
    return list(dict.fromkeys(ip_address(each[4][0]) for each in found if "%" not in each[4][0]))


def _result(host: str, port: int, address: Address) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=str(address),
        port=port,
        family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
