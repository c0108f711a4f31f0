"""The program that the loader grew from, as it was but for the line that imports the loader."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from random import shuffle

from tqdm import tqdm

from evenshard import OpenWebTextLoader, shuffle, take

parser = ArgumentParser()
parser.add_argument('-j', '--jobs', type=int, default=2)
parser.add_argument('data_dir', type=Path)


def main():
    ns: Namespace = parser.parse_args()
    subsets = [*sorted(ns.data_dir.glob('*.tar'))]
    shuffle(subsets)
    print(f'load {len(subsets)} parts from {ns.data_dir} '
          f'with {ns.jobs} workers')
    loader = OpenWebTextLoader(subsets, num_workers=ns.jobs)
    samples = iter(loader)
    samples = shuffle(samples, 1024)
    samples = take(samples, 500_000)
    for sample in tqdm(samples, total=500_000, unit='sample'):
        continue
        print(*sample[:2])


if __name__ == '__main__':
    main()
