"""Whether anybody listens at an address."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def is_reachable(address: str, *, seconds: float) -> bool:
    """Say whether a connection to `host:port`, with or without a scheme, can be opened; also of what names no port.

    Args:
        address: as a library of clusters takes it.
        seconds: how long an answer is waited for.
    """
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or port is None:
        return True  # such as `auto`: its library knows what that means
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError:
        return False
    return True
