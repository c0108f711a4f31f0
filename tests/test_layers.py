"""Imports go one way, and engines and the orchestrator are known in one place each."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LAYERS = ("deployments", "flows", "tasks", "evenshard", "evenshard.adapters", "evenshard.core")
CLUSTERS = {"dask": "dask", "distributed": "dask", "ray": "ray", "prefect_dask": "no", "prefect_ray": "no"}
IMPURE = {"os", "socket", "time", "subprocess", "pathlib", "io", "httpx", "threading", "polars", "pyarrow"}
FILES = sorted(
    path for layer in ("deployments", "flows", "tasks", "evenshard") for path in (ROOT / layer).rglob("*.py")
)


def module_of(path: Path) -> str:
    """Give a file's module name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> int | None:
    """Give the position of a module's layer, lower ones last; None for foreign ones."""
    found = [index for index, name in enumerate(LAYERS) if module == name or module.startswith(name + ".")]
    return max(found, default=None)


def imports_of(path: Path) -> Iterator[str]:
    """Give the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_module_imports_no_layer_above_its_own(path: Path) -> None:
    """Arrows point down: deployments, flows, tasks, the engine, its adapters, its core."""
    here = layer_of(module_of(path))
    assert here is not None
    assert [name for name in imports_of(path) if (there := layer_of(name)) is not None and there < here] == []


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_module_knows_prefect_and_engines_only_where_it_may(path: Path) -> None:
    """Prefect is known in flows and tasks, each cluster's library in adapters of its name, files not in the core."""
    module, roots = module_of(path), {name.split(".")[0] for name in imports_of(path)}
    assert "prefect" not in roots or module.startswith(("flows", "tasks", "deployments"))
    assert all(module.startswith(f"evenshard.adapters.{CLUSTERS[root]}_") for root in roots & set(CLUSTERS))
    assert not roots & IMPURE or not module.startswith("evenshard.core")


def test_environment_is_read_in_one_place() -> None:
    """Only `flows/config.py` reads the environment."""
    readers = [module_of(path) for path in FILES if "os.environ" in path.read_text() or "getenv" in path.read_text()]
    assert ["flows.config"] == readers
