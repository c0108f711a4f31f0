"""Read a published set through torch's DataLoader with worker processes; run by a Python that has torch and pydantic.

Usage: python read_torch.py FOLDER START_METHOD. Prints the rows of each batch as a JSON line.
"""

import json
import sys

from torch.utils.data import DataLoader

from evenshard import ChunkReader


def main() -> None:
    """Print all batches, in an order that torch draws."""
    reader = ChunkReader(sys.argv[1])
    options = {"batch_size": 4, "shuffle": True, "num_workers": 2, "multiprocessing_context": sys.argv[2]}
    for batch in DataLoader(reader, collate_fn=list, **options):
        print(json.dumps([sample["row"] for sample in batch]))


if __name__ == "__main__":
    main()
