"""Links: one spelling for one address, and a reason for everything that is none."""

from __future__ import annotations

import httpx
import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.link import MAX_LINK_CHARS, join_link, normalise_link
from evenshard.core.outcome import Failure, Reason

ADDRESSES = (
    ("http://host/a.jpg", "http://host/a.jpg"),
    ("  http://host/a.jpg \n", "http://host/a.jpg"),
    ("HTTPS://HOST.Example/A.JPG", "https://host.example/A.JPG"),
    ("http://host", "http://host/"),
    ("http://host?q", "http://host/?q"),
    ("http://host:80/", "http://host/"),
    ("https://host:443/", "https://host/"),
    ("https://host:80/", "https://host:80/"),
    ("http://host:/", "http://host/"),
    ("http://host/a#part", "http://host/a"),
    ("http://host/a b/é?q=ü", "http://host/a%20b/%C3%A9?q=%C3%BC"),
    ("http://host/a%20b%2Fc%7e?q=%2C%3d", "http://host/a%20b%2Fc%7e?q=%2C%3d"),
    ("http://host/100%.jpg?50%", "http://host/100%25.jpg?50%25"),
    ("http://host/?a=1&amp;b=2", "http://host/?a=1&amp;b=2"),
    ("http://host/a+b?c+d;e,f:g@h!$'()*", "http://host/a+b?c+d;e,f:g@h!$'()*"),
    ('http://host/a|b\\c"<>^`{}[]', "http://host/a%7Cb%5Cc%22%3C%3E%5E%60%7B%7D%5B%5D"),
    ("http://host/a/./b/../c/.", "http://host/a/c/"),
    ("http://host/../../a", "http://host/a"),
    ("http://host/a?zero\u200bwidth", "http://host/a?zero%E2%80%8Bwidth"),
    ("http://münchen.example/", "http://xn--mnchen-3ya.example/"),
    ("http://MÜNCHEN。example/", "http://xn--mnchen-3ya.example/"),
    ("http://-a_b-.example./", "http://-a_b-.example./"),
    ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
    ("http://[::1]:8000/", "http://[::1]:8000/"),
    ("http://[0:0::FFFF:7F00:1]/", "http://[::ffff:7f00:1]/"),
    ("http://user:pass@host/", "http://user:pass@host/"),
    ("http://a@b@host/", "http://a%40b@host/"),
    ("http://@host/", "http://host/"),
)

REFUSED = (
    (None, Reason.NO_LINK, ""),
    ("", Reason.NO_LINK, ""),
    (" \t\n\u00a0", Reason.NO_LINK, ""),
    ("//host/a", Reason.BAD_SCHEME, "the link has no scheme"),
    ("host/a", Reason.BAD_SCHEME, "the link has no scheme"),
    ("127.0.0.1:80/a", Reason.BAD_SCHEME, "the link has no scheme"),
    ("localhost:80/a", Reason.BAD_SCHEME, "localhost: is not fetched"),
    ("FILE:///etc/passwd", Reason.BAD_SCHEME, "file: is not fetched"),
    ("data:image/gif;base64,AA==", Reason.BAD_SCHEME, "data: is not fetched"),
    ("ftp://host/a", Reason.BAD_SCHEME, "ftp: is not fetched"),
    ("http://", Reason.BAD_LINK, "the link has no host"),
    ("http:///a", Reason.BAD_LINK, "the link has no host"),
    ("http:host/a", Reason.BAD_LINK, "the link has no host"),
    ("http:\\\\host\\a", Reason.BAD_LINK, "the link has no host"),
    ("http://[::1", Reason.BAD_LINK, ""),
    ("http://[::1]x/", Reason.BAD_LINK, "no IPv6 address"),
    ("http://[fe80::1%25eth0]/", Reason.BAD_LINK, ""),
    ("http://[127.0.0.1]/", Reason.BAD_LINK, ""),
    ("http://host:99999/", Reason.BAD_LINK, "0-65535"),
    ("http://host:0/", Reason.BAD_LINK, "port 0"),
    ("http://host:http/", Reason.BAD_LINK, "'http'"),
    ("http://ho st/", Reason.BAD_LINK, "'ho st' is no host name"),
    ("http://%68ost/", Reason.BAD_LINK, "is no host name"),
    ("http://a..b/", Reason.BAD_LINK, "is no host name"),
    (f"http://{'a' * 64}.example/", Reason.BAD_LINK, "is no host name"),
    ("http://\u2488example/", Reason.BAD_LINK, ""),
    ("http://host/\x00", Reason.BAD_LINK, "character U+0000 at position 12"),
    ("http://host/a\nb", Reason.BAD_LINK, "character U+000A"),
    ("http://host/\ud800", Reason.BAD_LINK, "character U+D800"),
    (f"http://host/{'a' * MAX_LINK_CHARS}", Reason.BAD_LINK, "more than 32768 characters"),
    (f"http://host/{'é' * (MAX_LINK_CHARS // 2)}", Reason.BAD_LINK, "characters are more than"),
    ("http://a" + "\u0301\u0327" * 10_000_000 + ".example/", Reason.BAD_LINK, "more than 32768 characters"),
    ("http://a" + "\u0301\u0327" * 15_000 + ".example/", Reason.BAD_LINK, "its host is longer than 1024"),
    ("http:/\\/a" + "\u0301\u0327" * 15_000, Reason.BAD_LINK, "its host is longer than 1024"),
    ("http://xn--/", Reason.BAD_LINK, "A-label"),
    ("http://1.2.3.4.5/", Reason.BAD_LINK, "is no IPv4 address"),
    ("http://a.256/", Reason.BAD_LINK, "is no number of an IPv4 address"),
)


@pytest.mark.parametrize(("link", "address"), ADDRESSES)
def test_link_becomes_one_spelling(link: str, address: str) -> None:
    """A link of the web gives its address, escaped once and otherwise spelled as it was."""
    assert address == normalise_link(link)


@pytest.mark.parametrize(("link", "reason", "detail"), REFUSED, ids=lambda value: ascii(value)[:40])
def test_link_that_is_none_has_a_reason(link: str | None, reason: Reason, detail: str) -> None:
    """What cannot be asked for is a failure that says what is wrong with it."""
    found = normalise_link(link)

    assert isinstance(found, Failure)
    assert reason == found.reason
    assert detail in found.detail


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("../b.jpg", "http://host/b.jpg"),
        ("b.jpg", "http://host/x/b.jpg"),
        ("/b c.jpg", "http://host/b%20c.jpg"),
        ("?q", "http://host/x/a?q"),
        (" https://other/b ", "https://other/b"),
        ("//other/b", "http://other/b"),
    ],
)
def test_redirect_is_joined(location: str, target: str) -> None:
    """A relative target counts from the address that named it; a whole one stands for itself."""
    assert target == join_link("http://host/x/a", location)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", Reason.BAD_SCHEME),
        ("http:b.jpg", Reason.BAD_LINK),
        ("//[::1", Reason.BAD_LINK),
        ("//host:0/", Reason.BAD_LINK),
    ],
)
def test_redirect_to_nowhere_has_a_reason(location: str, reason: Reason) -> None:
    """A target that cannot be asked for is a failure, as a link of the table is."""
    found = join_link("http://host/x/a", location)

    assert isinstance(found, Failure)
    assert reason == found.reason


STARTS = st.sampled_from(["http://", "https://", "HTTP:", "http://h/", "http://u@h:80", "http://[::1]", ""])
SIGNS = st.one_of(st.sampled_from("/.:@?#[]%\\&=;+-_ab19Aé \u200b|\"'<>{}^`"), st.characters())


@given(STARTS, st.text(SIGNS, max_size=40))
def test_every_text_has_one_spelling_or_a_reason(start: str, rest: str) -> None:
    """Any text gives a failure, or an ASCII address that stays as it is and that both client libraries read alike."""
    address = normalise_link(start + rest)
    if isinstance(address, Failure):
        return
    ours, theirs = httpx.URL(address), yarl.URL(address, encoded=True)

    assert address.isascii()
    assert address == normalise_link(address) == str(ours) == str(theirs)
    assert (ours.host, ours.port or {"http": 80, "https": 443}[ours.scheme]) == (theirs.host, theirs.port)
