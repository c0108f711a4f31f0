"""Places in S3, read from what people type."""

from __future__ import annotations

import pytest

from evenshard.core.errors import OptionError
from evenshard.core.s3_place import S3Settings, parse_folder, parse_place


@pytest.mark.parametrize(
    ("address", "bucket", "key"),
    [
        ("s3://bucket/a/b.parquet", "bucket", "a/b.parquet"),
        ("S3://bucket/a?b#c%20d", "bucket", "a?b#c%20d"),
        ("s3://my.bucket-1", "my.bucket-1", ""),
        ("s3://bucket/a/", "bucket", "a/"),
        ("s3://bucket//a", "bucket", "/a"),
        ("s3://bucket/me@home", "bucket", "me@home"),
    ],
)
def test_key_is_taken_as_it_stands(address: str, bucket: str, key: str) -> None:
    """Nothing in a key is decoded, and only slashes part it from its bucket."""
    place = parse_place(address, option="source")
    assert (bucket, key) == (place.bucket, place.key)


@pytest.mark.parametrize("address", ["s3://bucket/a/b", "s3://bucket/a/b/", "s3://bucket/a/b//"])
def test_slashes_at_the_end_are_dropped_when_a_folder_is_meant(address: str) -> None:
    """A data set has one address."""
    assert "s3://bucket/a/b" == parse_folder(address, option="destination").address


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("s3://", "'' is no bucket's name: 3 to 63 letters"),
        ("s3:///a", "'' is no bucket's name"),
        ("s3://ab/c", "'ab' is no bucket's name"),
        ("s3://no bucket/c", "'no bucket' is no bucket's name"),
        ("s3://bucket?/c", "is no bucket's name"),
        ("s3://arn:aws:s3:::bucket/c", "is no bucket's name"),
        ("s3://KEY:SECRET@bucket/c", r"s3://\*\*\*@bucket/c holds a login; credentials come from boto3's chain"),
        ("s3://bucket/a//b", "has a part that is empty"),
        ("s3://bucket/../b", "has a part that is empty, . or .."),
        ("s3://bucket/a\nb", "cannot be used"),
        ("s3://bucket/" + "x" * 801, "cannot be used: more than 800 bytes"),
        ("s3://bucket/\udcff", "is not UTF-8"),
    ],
)
def test_address_is_refused_in_one_line(address: str, told: str) -> None:
    """What no server takes, or not every one, is refused before any is asked; secrets are not repeated."""
    with pytest.raises(OptionError, match=told) as caught:
        parse_folder(address, option="destination")
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "style"),
    [
        ({}, "auto"),
        ({"endpoint_url": "http://127.0.0.1:9000"}, "path"),
        ({"endpoint_url": "https://s3.example.org", "path_style": False}, "virtual"),
        ({"path_style": True}, "path"),
    ],
)
def test_bucket_is_named_in_the_path_when_an_endpoint_is_given(settings: dict[str, object], style: str) -> None:
    """Servers of one's own seldom have a host name for each bucket."""
    assert style == S3Settings(**settings).addressing_style  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("127.0.0.1:9000", "is no http"),
        ("ftp://host", "is no http"),
        ("http://", "is no http"),
        ("http://host:99999", "is no http"),
        ("http://KEY:SECRET@host", r"http://\*\*\*@host holds a login"),
    ],
)
def test_endpoint_is_refused_when_it_is_no_server(url: str, told: str) -> None:
    """An endpoint is an http(s) address without a login."""
    with pytest.raises(OptionError, match=told) as caught:
        S3Settings(endpoint_url=url)
    assert "SECRET" not in str(caught.value)
