"""Parameters of a benchmark of the loaders."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evenshard.core.errors import UsageError
from evenshard.core.timing import Kind
from evenshard.load import BUFFER, PREFETCH, SAMPLES

GRID: Final = [1, 2, 3, 4, 8, 16, 20]
EXTRA: Final = ("matplotlib", "psutil")
"""What the extra `benchmark` brings."""


def check_extra() -> None:
    """Look whether the extra is there, before anything is measured.

    Raises:
        UsageError: it is not.
    """
    if missing := [name for name in EXTRA if find_spec(name) is None]:
        raise UsageError(f"a benchmark needs {' and '.join(missing)}: pip install 'evenshard[benchmark]'")


class BenchmarkOptions(BaseModel):
    """What is measured, how often, and where the figures go."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(description="Archive (a tar of packed tars of texts), folder of them, or quoted glob pattern.")
    chunks: str | None = Field(
        default=None,
        description="Set that `evenshard text` made of them: folder, or s3://bucket/prefix; measured, too.",
    )
    out: str = Field(default="benchmark", description="Folder for timings.csv and the plots; must not hold one yet.")
    workers: list[int] = Field(default=GRID, description="Numbers of workers.")
    repeats: int = Field(default=3, ge=1, description="Passes for each number of workers.")
    warm_ups: int = Field(default=1, ge=0, description="Passes before that count for nothing.")
    samples: int = Field(default=SAMPLES, ge=1, description="Samples in a pass, at most.")
    prefetch: int = Field(default=PREFETCH, ge=0, description="Given to the loader.")
    buffer: int = Field(default=BUFFER, ge=0, description="Of the shuffle behind the loader; 0 leaves it out.")

    @property
    def sources(self) -> list[tuple[Kind, str]]:
        """What is read, by its kind."""
        chunks = [(Kind.CHUNKS, self.chunks)] if self.chunks else []
        return [(Kind.ARCHIVES, self.source), *chunks]

    @field_validator("workers")
    @classmethod
    def _ordered(cls, workers: list[int]) -> list[int]:
        if not workers:
            raise ValueError("give at least one number")
        if min(workers) < 1 or max(workers) > 1024:
            raise ValueError("give numbers from 1 to 1024")
        return sorted(set(workers))
