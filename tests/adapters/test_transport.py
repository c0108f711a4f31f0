"""The transport's errors: each means one reason, whoever raised it and however it is wrapped."""

from __future__ import annotations

import socket
import ssl
import zlib

import aiohttp
import httpx
import pytest

from evenshard.adapters.resolver import AddressRefusedError
from evenshard.adapters.transport import TRANSLATED, describe, failure_of
from evenshard.core.outcome import Reason


def wrapped(error: BaseException, *causes: BaseException) -> BaseException:
    """Chain errors as `raise ... from` does, the outermost first."""
    for outer, inner in zip((error, *causes), causes, strict=False):
        outer.__cause__ = inner
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AddressRefusedError("x"), Reason.ADDRESS_REFUSED),
        (wrapped(httpx.ConnectError("x"), OSError("x"), socket.gaierror(socket.EAI_NONAME, "x")), Reason.NO_SUCH_HOST),
        (wrapped(httpx.ConnectError("x"), socket.gaierror(socket.EAI_AGAIN, "x")), Reason.NAME_NOT_RESOLVED),
        (wrapped(httpx.ConnectError("x"), ssl.SSLCertVerificationError("x")), Reason.TLS_FAILED),
        (wrapped(httpx.ConnectError("x"), ExceptionGroup("x", [ConnectionRefusedError()])), Reason.CONNECT_FAILED),
        (ExceptionGroup("x", [ExceptionGroup("y", [httpx.ConnectError("x")])]), Reason.CONNECT_FAILED),
        (ExceptionGroup("x", [OverflowError("port")]), Reason.BAD_ANSWER),
        (httpx.InvalidURL("x"), Reason.BAD_LINK),
        (httpx.ReadTimeout("x"), Reason.TOO_SLOW),
        (httpx.ReadError("x"), Reason.CUT_SHORT),
        (httpx.RemoteProtocolError("x"), Reason.BAD_ANSWER),
        (aiohttp.InvalidURL("x"), Reason.BAD_LINK),
        (aiohttp.ServerDisconnectedError(), Reason.CUT_SHORT),
        (aiohttp.ClientPayloadError("x"), Reason.CUT_SHORT),
        (aiohttp.ClientOSError(104, "x"), Reason.CUT_SHORT),
        (aiohttp.ClientError("x"), Reason.BAD_ANSWER),
        (ConnectionResetError(), Reason.CUT_SHORT),
        (zlib.error("x"), Reason.BAD_ANSWER),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_error_means_one_reason(error: BaseException, reason: Reason) -> None:
    """The most telling error of a chain or group gives the reason, and each kind is caught by name."""
    assert isinstance(error, TRANSLATED)
    assert reason == failure_of(error).reason


def test_description_is_one_short_line() -> None:
    """A message of many lines, or of great length, becomes one line that fits in a table."""
    described = describe(ValueError("first\n  second" + "x" * 1000))

    assert described.startswith("ValueError: first second")
    assert len(described) == 300
