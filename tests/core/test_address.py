"""Addresses: what a stranger's link may lead to, and what the user has opened."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.address import OpenHosts, is_public, literal_address
from evenshard.core.errors import OptionError
from evenshard.core.link import host_of, normalise_link

PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0",
          "223.255.255.255", "2606:2800:220:1:248:1893:25c8:1946", "2a00:1450:4001:82a::200e", "::ffff:8.8.8.8",
          "64:ff9b::8.8.8.8")  # fmt: skip
REFUSED = ("0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254",
           "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
           "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
           "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1",
           "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::",
           "2001:10::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd12::1",
           "fe80::1", "fec0::1", "ff02::1")  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_address_is_public(text: str) -> None:
    """Addresses of the internet are open, written as IPv4 inside IPv6 too."""
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", REFUSED)
def test_address_is_refused(text: str) -> None:
    """Loopback, private, link-local, shared, documentation, multicast, reserved: refused in all their forms."""
    assert not is_public(ip_address(text))


@given(st.ip_addresses())
def test_nothing_is_public_that_the_standard_library_calls_private(address: IPv4Address | IPv6Address) -> None:
    """Nothing that Python's own lists call private, loopback, link-local, multicast or reserved is open."""
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    looked = inner or address
    known = looked.is_private or looked.is_loopback or looked.is_link_local or looked.is_multicast
    translated = str(address).startswith("64:ff9b::")
    if (known or looked.is_reserved or looked.is_unspecified) and not translated:
        assert not is_public(address)


LOOPBACK_FORMS = ("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0X7F.1", "017700000001",
                  "0177.0.0.1", "127.0.0.1.", "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021",
                  "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[64:ff9b::7f00:1]", "[::1]",
                  "[::127.0.0.1]", "0", "0x0")  # fmt: skip


@pytest.mark.parametrize("form", LOOPBACK_FORMS)
def test_every_form_of_loopback_is_seen_through(form: str) -> None:
    """Decimal, octal, hex, short and wrapped forms are addresses like any, and refused like any."""
    link = normalise_link(f"http://user@{form}:81/x")

    assert isinstance(link, str)
    address = literal_address(host_of(link))
    assert address is not None
    assert not is_public(address)


OPEN = OpenHosts.parse(["127.0.0.1", " files.Corp.example. ", "*.bücher.example", "10.1.0.0/16", "[::1]", "fd00::/8"])


@pytest.mark.parametrize(
    ("host", "is_open"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", False),
        ("files.corp.example", True),
        ("files.corp.example.", True),
        ("other.corp.example", False),
        ("xfiles.corp.example", False),
        ("a.xn--bcher-kva.example", True),
        ("a.b.xn--bcher-kva.example", True),
        ("xn--bcher-kva.example", False),
        ("10.1.200.3", True),
        ("10.2.0.1", False),
        ("::1", True),
        ("fd00::5", True),
        ("fe80::5", False),
    ],
)
def test_host_is_open_when_an_entry_says_so(host: str, is_open: bool) -> None:
    """Names, endings, addresses and networks each open what they say and nothing beside it."""
    assert is_open is OPEN.include(host)


@pytest.mark.parametrize("entry", ["", "http://host/", "a b", "10.0.0.0/33", "10.0.0.1/8", "*", "*.", "host:80"])
def test_entry_is_refused_when_it_is_no_host(entry: str) -> None:
    """A wrong entry is named, with what it may be."""
    with pytest.raises(OptionError, match=r"is no host name, \*\.name, address or network such as 10\.0\.0\.0/8"):
        OpenHosts.parse([entry])
