"""A Ceph gateway on loopback, from Debian's packages radosgw, ceph-mon and ceph-osd: one monitor, one store, in memory.

As a program it runs one until it is stopped: `python -m tests.support.ceph_server FOLDER`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY, S3Server, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAMS: Final = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
PACKAGES: Final = "apt-get install --no-install-recommends radosgw ceph-mon ceph-osd"
COMMAND_SECONDS: Final = 120

SETTINGS: Final = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon_port}]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
ms bind ipv6 = false
auth allow insecure global id reclaim = false
keyring = {folder}/keyring
run dir = {folder}
log file = {folder}/$name.log
pid file = {folder}/$name.pid
crash dir = {folder}
admin socket =
osd objectstore = memstore
memstore device bytes = 4294967296
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd memory target = 939524096
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 2000
mon data avail crit = 1
paxos propose interval = 0.02
paxos min wait = 0.01
[mon]
mon data = {folder}/mon
mon cluster log file = {folder}/cluster.log
[osd]
osd data = {folder}/osd
[client.rgw.a]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw data = {folder}/rgw
rgw max concurrent requests = {max_requests}
"""


@contextmanager
def ceph(folder: Path, *, max_requests: int = 1024) -> Iterator[S3Server]:
    """Run a gateway and what it needs.

    Args:
        folder: an empty one.
        max_requests: those above it that are in flight get 503 SlowDown.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise RuntimeError(f"Ceph's {', '.join(missing)} are missing; on Debian 12: {PACKAGES}")
    mon_port, port = free_ports(2)
    text = SETTINGS.format(fsid=uuid4(), folder=folder, mon_port=mon_port, port=port, max_requests=max_requests)
    (folder / "ceph.conf").write_text(text)
    with ExitStack() as stack:
        for command in _commands(folder, mon_port, text.partition("fsid = ")[2].partition("\n")[0]):
            if command[-1] == "-f":
                stack.enter_context(_daemon(command, folder))
            else:
                _do(command, folder)
        server = S3Server(endpoint_url=f"http://127.0.0.1:{port}")
        server.wait_until_ready(None, folder / "log")
        yield server


def _commands(folder: Path, mon_port: int, fsid: str) -> Iterator[list[str]]:
    """Give what is to be run, in order; what ends in `-f` stays, in the foreground."""
    keyring, config = str(folder / "keyring"), ["-c", str(folder / "ceph.conf")]
    for number, name in enumerate(("mon.", "client.admin", "osd.0", "client.rgw.a")):
        rights = [each for kind in ("mon", "osd", "mgr") for each in ("--cap", kind, "allow *")]
        create = [] if number else ["--create-keyring"]
        yield ["ceph-authtool", *create, keyring, "--gen-key", "-n", name, *rights]
    monmap = str(folder / "monmap")
    yield ["monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{mon_port}]", monmap]
    yield ["ceph-mon", *config, "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring]
    yield ["ceph-mon", *config, "-i", "a", "-f"]
    osd = str(uuid4())
    yield ["ceph", *config, "osd", "new", osd]
    (folder / "osd").mkdir()
    yield ["ceph-osd", *config, "-i", "0", "--mkfs", "--osd-uuid", osd]
    yield ["ceph-osd", *config, "-i", "0", "-f"]
    user = ["--uid=tests", "--display-name=tests", f"--access-key={ACCESS_KEY}", f"--secret-key={SECRET_KEY}"]
    yield ["radosgw-admin", *config, "user", "create", *user]
    yield ["radosgw", *config, "-n", "client.rgw.a", "-f"]


def _do(command: Sequence[str], folder: Path) -> None:
    with (folder / "log").open("ab") as log:
        subprocess.run(command, check=True, cwd=folder, stdout=log, stderr=log, timeout=COMMAND_SECONDS)


@contextmanager
def _daemon(command: Sequence[str], folder: Path) -> Iterator[None]:
    with (folder / "log").open("ab") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.kill()  # what it holds is thrown away


def main() -> None:
    """Run a gateway in a new folder until Ctrl-C or SIGTERM."""
    stopped, folder = threading.Event(), Path(sys.argv[1]).absolute()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    folder.mkdir(parents=True)
    with ceph(folder) as server:
        sys.stdout.write(f"{server.endpoint_url} {ACCESS_KEY} {SECRET_KEY}\n")
        sys.stdout.flush()
        stopped.wait()


if __name__ == "__main__":
    main()
