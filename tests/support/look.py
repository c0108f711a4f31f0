"""A program: reads index and manifest of a data set in a tight loop until its standard input ends; tells what it saw.

Usage: python -m tests.support.look FOLDER
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path


def wait_for_end(stop: threading.Event) -> None:
    """Wait until nobody writes to this program any more."""
    sys.stdin.read()
    stop.set()


def main() -> None:
    """Look until told to stop; print how often it looked, and the first problem."""
    folder, stop = Path(sys.argv[1]), threading.Event()
    threading.Thread(target=wait_for_end, args=(stop,), daemon=True).start()
    last = num_looks = 0
    while not stop.is_set():
        index = json.loads((folder / "index.json").read_bytes())
        manifest = json.loads((folder / "manifest.json").read_bytes())
        num_samples = sum(chunk["chunk_size"] for chunk in index["chunks"])
        if not last <= num_samples <= manifest["counts"]["stored"]:
            raise SystemExit(f"{num_samples} samples after {last}, {manifest['counts']['stored']} in the manifest")
        last, num_looks = num_samples, num_looks + 1
    print(num_looks, last)  # noqa: T201 - what this program is for


if __name__ == "__main__":
    main()
