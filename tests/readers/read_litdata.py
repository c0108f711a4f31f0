"""Read a published set with litdata's own StreamingDataset; run by a Python that has litdata and torch.

Prints one JSON line a sample: bytes as their SHA-256, the rest as it is.
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
    samples = [*dataset, dataset[len(dataset) - 1]]
    for sample in samples:
        if isinstance(sample, dict):
            print(json.dumps({name: plain(value) for name, value in sample.items()}))
        else:
            print(json.dumps([plain(value) for value in sample]))


if __name__ == "__main__":
    main()
