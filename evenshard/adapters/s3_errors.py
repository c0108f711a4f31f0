"""What boto3 raises, in our own words: what it means, and a line without secrets."""

from __future__ import annotations

from typing import Final

import botocore.exceptions as foreign
from botocore.parsers import ResponseParserError

from evenshard.core.s3_failure import Kind, S3Failure, failure_in


class CutError(Exception):
    """An answer is not whole, though boto3 takes it for one."""


FOREIGN: Final = (foreign.BotoCoreError, foreign.ClientError, ResponseParserError, CutError, ValueError)
"""All of it. ValueError: a date or a number in an answer that breaks off."""

_NO_LOGIN: Final = "the login has expired, or is none; log in again with `aws sso login`"
_CUT: Final = "{url} gave no whole answer: {name}"
_MEANINGS: Final[tuple[tuple[type[Exception], Kind, str], ...]] = (
    (
        foreign.NoCredentialsError,
        Kind.REFUSED,
        "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    ),
    (foreign.PartialCredentialsError, Kind.REFUSED, "the credentials are not complete"),
    (foreign.TokenRetrievalError, Kind.REFUSED, _NO_LOGIN),
    (foreign.SSOError, Kind.REFUSED, _NO_LOGIN),
    (
        foreign.CredentialRetrievalError,
        Kind.REFUSED,
        "the credentials cannot be had from where boto3's settings say",
    ),
    (foreign.ProfileNotFound, Kind.REFUSED, "boto3's settings have no such profile; see AWS_PROFILE"),
    (foreign.ConfigParseError, Kind.REFUSED, "boto3's settings cannot be read; see ~/.aws/config"),
    (foreign.ConfigNotFound, Kind.REFUSED, "boto3's settings cannot be found; see AWS_CONFIG_FILE"),
    (foreign.SSLError, Kind.REFUSED, "TLS with {url} fails: {cause}"),
    (foreign.EndpointConnectionError, Kind.UNREACHABLE, "{url} cannot be connected to: {cause}"),
    (foreign.ConnectTimeoutError, Kind.UNREACHABLE, "{url} cannot be connected to: no answer in time"),
    (foreign.ProxyConnectionError, Kind.UNREACHABLE, "the proxy before {url} cannot be connected to: {cause}"),
    (foreign.ReadTimeoutError, Kind.SILENT, "{url} gave no answer in time"),
    (foreign.HTTPClientError, Kind.MAY_PASS, _CUT),  # of which most others are made
    (foreign.ConnectionError, Kind.MAY_PASS, _CUT),
    (foreign.IncompleteReadError, Kind.MAY_PASS, _CUT),
    (ResponseParserError, Kind.MAY_PASS, _CUT),  # of an answer that breaks off, or of what is no S3 server
    (CutError, Kind.MAY_PASS, _CUT),
    (foreign.BotoCoreError, Kind.REFUSED, "{cause}"),
    (ValueError, Kind.MAY_PASS, _CUT),
)
"""The first that fits counts."""


def failure_of(error: Exception, url: str) -> S3Failure:
    """Say what an error of boto3 means.

    Args:
        error: one of FOREIGN.
        url: of the endpoint.
    """
    if isinstance(error, foreign.ClientError):
        said = error.response.get("Error", {})
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return failure_in(_one_line(said.get("Code", status)), status)
    kind, told = next((kind, told) for meant, kind, told in _MEANINGS if isinstance(error, meant))
    return S3Failure(kind=kind, told=told.format(url=url, cause=_cause(error), name=type(error).__name__))


def _cause(error: Exception) -> str:
    """Say what is behind an error of botocore, whose own sentence repeats the whole address."""
    cause = getattr(error, "kwargs", {}).get("error") or error
    return _one_line(str(cause).rpartition(": ")[2] or type(cause).__name__)


def _one_line(error: object) -> str:
    text = " ".join(str(error).split())[:200]
    return "".join(char if char.isprintable() else "?" for char in text) or type(error).__name__
