"""Read a published set with litdata's own StreamingDataset; run by a Python that has litdata and torch.

Prints one JSON line a sample: bytes as their SHA-256, the rest as it is. With `--wait` it stops at the first sample
until a line comes in.
"""

import hashlib
import json
import sys
from typing import Any

from litdata import StreamingDataset


def plain(value: Any) -> Any:
    """Make a value fit for JSON."""
    if isinstance(value, bytes | memoryview):
        return hashlib.sha256(value).hexdigest()
    if hasattr(value, "tobytes"):
        return [*value.size, value.mode, hashlib.sha256(value.tobytes()).hexdigest()]
    return value


def main() -> None:
    """Print all samples in order, by iteration, then the last one by its number."""
    dataset = StreamingDataset(sys.argv[1], shuffle=False)
    for number, sample in enumerate(dataset):
        show(sample)
        if number == 0 and "--wait" in sys.argv:
            sys.stdin.readline()
    show(dataset[len(dataset) - 1])


def show(sample: Any) -> None:
    """Print one sample."""
    values = sample if isinstance(sample, dict) else dict(enumerate(sample))
    shown = {name: plain(value) for name, value in values.items()}
    print(json.dumps(shown if isinstance(sample, dict) else [*shown.values()]), flush=True)


if __name__ == "__main__":
    main()
