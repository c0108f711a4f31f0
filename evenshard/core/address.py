"""Which addresses a stranger's link may lead to: public ones, and hosts that the user has opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from evenshard.core.errors import OptionError
from evenshard.core.link import host_name

if TYPE_CHECKING:
    from collections.abc import Iterable

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

NOT_PUBLIC: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared between carriers and their customers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, where clouds answer with credentials
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays to IPv6, given up
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved; broadcast
        ),
    )
)
"""Source: IANA IPv4 Special-Purpose Address Registry. Python's own lists differ between its patch releases."""

GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""All that is public in IPv6 lies in here. Source: IANA IPv6 Address Space."""

NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo, which wraps an IPv4 address, is among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which wraps an IPv4 address; given up
            "3fff::/20",  # documentation
        ),
    )
)
"""Source: IANA IPv6 Special-Purpose Address Registry."""

WRAPPING: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Forms that end in the IPv4 address that is really reached: mapped, and translated by the network (RFC 6052)."""


def is_public(address: Address) -> bool:
    """Say whether an address is one of the public internet: nothing of this machine, its network or its cloud."""
    if isinstance(address, IPv6Address):
        if any(address in network for network in WRAPPING):
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        return address in GLOBAL_UNICAST and not any(address in network for network in NOT_PUBLIC_V6)
    return not any(address in network for network in NOT_PUBLIC)


def literal_address(host: str) -> Address | None:
    """Give the address that a host of a normalised link is, or None where it is a name.

    Args:
        host: as `link.host_of` gives it, an IPv6 address without brackets.
    """
    try:
        return ip_address(host)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHosts:
    """Hosts that links may lead to whatever their address.

    An entry opens links that say so themselves: an address or a network opens links to the bare
    address, a name opens links to that name. A stranger's name that resolves to an opened address does
    not get through.

    Args:
        names: exact host names.
        suffixes: endings of host names, each with its leading dot.
        networks: of bare addresses.
    """

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    networks: tuple[Network, ...] = field(default=())

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Self:
        """Read what the user wrote: names, `*.name`, addresses, networks such as 10.0.0.0/8.

        Raises:
            OptionError: an entry is none of these.
        """
        names, suffixes, networks = set(), [], []
        for entry in map(str.strip, entries):
            network = _network(entry)
            if network is not None:
                networks.append(network)
            elif entry.startswith("*."):
                suffixes.append("." + _name(entry[2:], entry))
            else:
                name = _name(entry, entry)
                networks += [found for found in [_network(name)] if found is not None]  # such as 127.1, spelled out
                names.add(name)
        return cls(names=frozenset(names), suffixes=tuple(suffixes), networks=tuple(networks))

    def include(self, host: str) -> bool:
        """Say whether the user opened a host of a normalised link."""
        address = literal_address(host)
        if address is not None:
            return any(address in network for network in self.networks)
        name = host.rstrip(".")
        return name in self.names or name.endswith(self.suffixes)


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry.strip("[]"))
    except ValueError:
        return None


def _name(text: str, entry: str) -> str:
    try:
        return host_name(text.lower()).rstrip(".")
    except ValueError as error:
        problem = f"{entry!r} is no host name, *.name, address or network such as 10.0.0.0/8: {error}"
        raise OptionError("allow_hosts", problem) from None
