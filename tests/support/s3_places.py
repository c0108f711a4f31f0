"""Places in S3 for tests: each on a server that is started when it is first asked for, below a prefix of its own."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from evenshard.adapters.s3_store import S3Store
from evenshard.core.s3_place import S3Settings
from tests.support.ceph_server import ceph
from tests.support.s3_servers import S3Server, moto, seaweed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SERVERS: Final = {"moto": moto, "seaweed": seaweed, "ceph": ceph}
BUCKET: Final = "evenshard-tests"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Place:
    """A prefix that nobody else uses, in a bucket that is there.

    Args:
        server: it is on.
        prefix: without a slash at its end.
        client: of boto3, to look at it, and to change it, past what is tested.
    """

    server: S3Server
    prefix: str
    client: Any = field(repr=False)

    @property
    def address(self) -> str:
        """Write it as a person would."""
        return f"s3://{BUCKET}/{self.prefix}"

    @property
    def settings(self) -> S3Settings:
        """Say how it is reached."""
        return S3Settings(endpoint_url=self.server.endpoint_url)

    def below(self, name: str) -> S3Place:
        """Give a place inside it."""
        return replace(self, prefix=f"{self.prefix}/{name}")

    def store(self, **given: Any) -> S3Store:  # noqa: ANN401 - as the store has them
        """Make a store of it."""
        return S3Store(self.address, self.settings, **given)

    def put(self, name: str, body: bytes) -> str:
        """Write an object below it; gives its address."""
        self.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}", Body=body)
        return f"{self.address}/{name}"

    def names(self) -> list[str]:
        """Give the names of all objects below it, whatever they are."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        return [each["Key"].removeprefix(f"{self.prefix}/") for page in pages for each in page.get("Contents", ())]

    def uploads(self) -> list[str]:
        """Give the keys of uploads in parts that were neither completed nor given up."""
        found = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=self.prefix)
        return [each["Key"] for each in found.get("Uploads", ())]


class Servers:
    """Starts each kind of server once.

    Args:
        make_folder: makes an empty folder.
        usual: the kind where none is named.
    """

    def __init__(self, make_folder: Callable[[str], Path], *, usual: str) -> None:
        self._make_folder, self._usual, self._stack = make_folder, usual, ExitStack()
        self._running: dict[str, tuple[S3Server, Any]] = {}

    def place(self, kind: str = "") -> S3Place:
        """Give a place of its own on such a server."""
        kind = kind or self._usual
        if kind not in self._running:
            server = self._stack.enter_context(SERVERS[kind](self._make_folder(kind)))
            client = server.client()  # making one takes a third of a second
            client.create_bucket(Bucket=BUCKET)
            self._running[kind] = server, client
        server, client = self._running[kind]
        return S3Place(server=server, prefix=uuid4().hex[:12], client=client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
