"""A Prefect server of a run's own, where none is set: started early, ended with the run.

Prefect would start one by itself, but in the run's own process group: Ctrl-C would end it before the run
could tell it anything, and it would outlive a run that is killed. This one is in a session of its own and
ends when its standard input does, which is when the run does, however that comes about. It keeps its data
where Prefect keeps them, so that a server started later shows the run.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Final

import httpx

from evenshard.core.errors import ServerNotStartedError, UsageError
from flows.config import server_environment
from flows.console import GOES_ON

PROGRAM: Final = """
import os, signal, sys, threading

def watch():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=watch, daemon=True).start()
import uvicorn
create = "prefect.server.api.server:create_app"
uvicorn.run(create, factory=True, fd=int(sys.argv[1]), log_level="error", lifespan="on")
"""
START_SECONDS: Final = 180.0
"""Ten times what a first start takes, migrations of an empty database included."""
END_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.1
ASK_SECONDS: Final = 15.0


class PrefectServer:
    """A server process. It starts at once, and ends when this interpreter does.

    To be made before Prefect is imported: what is registered first is done last at the end, so Prefect can
    still tell the server what it has to, which it would otherwise try for minutes.
    """

    def __init__(self) -> None:
        self._is_wanted = True
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        with socket.socket() as listening:  # bound here, so that nobody else can answer at its port
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)
            self._port: int = listening.getsockname()[1]
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-c", PROGRAM, str(listening.fileno())],
                env=server_environment(),
                pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        atexit.register(self.close)

    @property
    def api_url(self) -> str:
        """Address of its API."""
        return f"http://127.0.0.1:{self._port}/api"

    def close(self) -> None:
        """End the server."""
        self._is_wanted = False
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_until_ready(self) -> None:
        """Wait for its first answer.

        Raises:
            ServerNotStartedError: it ended, or did not answer in time.
        """
        due = time.monotonic() + START_SECONDS
        while time.monotonic() < due:
            if self._process.poll() is not None:
                raise ServerNotStartedError(f"Prefect's server ended while starting: {self._last_words()}")
            if _is_healthy(self.api_url):
                threading.Thread(target=self._watch, name="evenshard-server-watch", daemon=True).start()
                return
            time.sleep(POLL_SECONDS)
        raise ServerNotStartedError(f"Prefect's server did not answer within {START_SECONDS:.0f} s")

    def _watch(self) -> None:
        """End this process at once if somebody ends its server: Prefect would try for minutes to tell it the rest.

        Nothing is half done by that: a run may be killed at any moment.
        """
        self._process.wait()
        if self._is_wanted:
            sys.stdout.flush()
            sys.stderr.write(f"evenshard: Prefect's server of this run was ended; {GOES_ON}\n")
            sys.stderr.flush()
            os._exit(1)

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def check_api(url: str) -> None:
    """Ask a server that the caller has set whether it is there.

    Raises:
        UsageError: it does not answer.
    """
    if not _is_healthy(url, seconds=ASK_SECONDS):
        raise UsageError(f"no Prefect server answers at {url}, where PREFECT_API_URL points; start it, or unset that")


def _is_healthy(api_url: str, *, seconds: float = 2.0) -> bool:
    try:
        answer = httpx.get(f"{api_url}/health", timeout=seconds, trust_env=False)
        return answer.is_success and answer.json() is True  # as Prefect answers, and not any web server
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False
