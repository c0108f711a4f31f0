"""S3 servers on loopback, each in a folder of its own, ended by what was started."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ACCESS_KEY: Final = "EVENSHARDTESTS"
SECRET_KEY: Final = "a-secret-of-the-tests-and-of-nothing-else"  # noqa: S105 - opens nothing but these servers
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_EC2_METADATA_DISABLED": "true",  # nobody is asked for credentials over the network
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1",
}
"""What programs under test find, whatever the machine has."""

START_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A server that takes the credentials of the tests.

    Args:
        endpoint_url: where it is.
    """

    endpoint_url: str

    def client(self, **settings: Any) -> Any:  # noqa: ANN401 - boto3 has no types
        """Make a client that does not try again."""
        config = Config(
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
            connect_timeout=2,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
        return boto3.session.Session().client("s3", endpoint_url=self.endpoint_url, config=config, **keys | settings)

    def wait_until_ready(self, process: subprocess.Popen[bytes] | None, log: Path) -> None:
        """Wait until it answers as S3 does."""
        end = time.monotonic() + START_SECONDS
        client = self.client()
        while True:
            try:
                client.list_buckets()
            except (BotoCoreError, ClientError) as error:
                if time.monotonic() > end or (process is not None and process.poll() is not None):
                    raise RuntimeError(f"no S3 server came up: {error}\n{log.read_text()[-2000:]}") from error
                time.sleep(0.05)  # asked again, as often as need be
            else:
                return


def free_ports(number: int) -> list[int]:
    """Find ports that are free together."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]


@contextmanager
def seaweed(folder: Path) -> Iterator[S3Server]:
    """Run SeaweedFS, all in one process, from its wheel."""
    options = [f"-{part}.port{kind}" for part in ("s3", "master", "volume", "filer") for kind in ("", ".grpc")]
    ports = dict(zip(options, free_ports(len(options)), strict=True))
    keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    (folder / "s3.json").write_text(
        json.dumps({"identities": [{"name": "tests", "credentials": keys, "actions": actions}]})
    )
    (folder / "data").mkdir()
    command = [
        _program("weed"), "-logtostderr=true", "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1", "-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=100",
        "-volume.minFreeSpace=1", "-filer", "-s3", "-s3.ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0",
        f"-s3.config={folder / 's3.json'}", *(f"{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip
    with _running(command, folder) as process:
        server = S3Server(endpoint_url=f"http://127.0.0.1:{ports['-s3.port']}")
        server.wait_until_ready(process, folder / "log")
        yield server


@contextmanager
def moto(folder: Path) -> Iterator[S3Server]:
    """Run moto's server, which keeps everything in memory."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, folder) as process:
        server = S3Server(endpoint_url=f"http://127.0.0.1:{port}")
        server.wait_until_ready(process, folder / "log")
        yield server


@contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server that writes below a folder and to a log there; it is gone afterwards."""
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(folder)},
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()  # what it holds is thrown away


def _program(name: str) -> str:
    """Find a program beside this Python, or on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"there is no program {name}; install the extra `test`")
    return found
