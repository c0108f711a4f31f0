"""Addresses: told from paths, and written without what is nobody else's business."""

from __future__ import annotations

import pytest

from evenshard.core.source_address import origin_of, part_login, scheme_of, shown


@pytest.mark.parametrize(
    ("source", "scheme"),
    [("HTTP://h/x", "http"), ("s3://b/k", "s3"), ("/a/b", None), ("a:b", None), ("x/http://h", None), ("c:\\x", None)],
)
def test_address_is_told_from_a_path_by_its_scheme(source: str, scheme: str | None) -> None:
    """What has a scheme and two slashes at its start is an address."""
    assert scheme == scheme_of(source)


@pytest.mark.parametrize(
    ("address", "parted", "written"),
    [
        ("http://h/x", ("http://h/x", None), "http://h/x"),
        ("http://me:pw@h:8/x", ("http://h:8/x", "me:pw"), "http://***@h:8/x"),
        ("http://me:p@w@h/x", ("http://h/x", "me:p@w"), "http://***@h/x"),
        ("http://me@h", ("http://h", "me"), "http://***@h"),
        ("http://h/a@b?c@d", ("http://h/a@b?c@d", None), "http://h/a@b?..."),
        ("https://h/x?id=5&sig=SECRET", ("https://h/x?id=5&sig=SECRET", None), "https://h/x?id=...&sig=..."),
        ("https://h/x?SECRET", ("https://h/x?SECRET", None), "https://h/x?..."),
        ("https://h/x#SECRET", ("https://h/x#SECRET", None), "https://h/x"),
        ("s3://me:pw@b/k", ("s3://b/k", "me:pw"), "s3://***@b/k"),
        ("/a/me:pw@h?x=y", ("/a/me:pw@h?x=y", None), "/a/me:pw@h?x=y"),
    ],
)
def test_address_is_shown_without_login_and_values_when_it_has_them(
    address: str, parted: tuple[str, str | None], written: str
) -> None:
    """Scheme, host and path in full; the login masked, the values of the query left out; a path as it is."""
    assert written == shown(address)
    if scheme_of(address):
        assert parted == part_login(address)


def test_origin_is_scheme_host_and_port() -> None:
    """What a login holds for; another port is another server."""
    assert "http://h:8" == origin_of("http://me:pw@h:8/x?y")
    assert origin_of("http://h/a") != origin_of("https://h/a")
