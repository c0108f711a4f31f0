"""The command line: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from prefect.client.orchestration import get_client

from evenshard import planning
from evenshard.adapters.footers import read_footers
from flows.cli import _given, _typed, commands
from flows.config import IngestOptions, PlanOptions, api_url, takes
from flows.ingest import ingest
from tests.support.commands import ended
from tests.support.programs import environment
from tests.support.sets import read_set
from tests.support.tables import plain_columns, write_broken_files, write_table

if TYPE_CHECKING:
    from tests.support.web import Web

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(web: Web, tmp_path: Path) -> Path:
    """Seven rows in one file."""
    return write_table(tmp_path / "t/a.parquet", plain_columns(7, address=web.address))


def test_set_is_written_and_verified_when_asked(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ingest` prints the counts, `verify` agrees."""
    destination = str(tmp_path / "set")
    options = ["--caption-column", "caption", "--columns", "row, width", "--rows-per-slice", "3", "--engine", "threads"]
    assert ended(["ingest", str(table), destination, *options]) == 0
    printed = capsys.readouterr().out
    assert "generation 1" in printed
    assert "7 rows = 7 stored + 0 filtered + 0 failed" in printed
    assert list(range(7)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    assert ended(["verify", destination]) == 0
    assert "7 rows = 7 stored" in capsys.readouterr().out


def test_plan_is_told_when_asked_and_nothing_else_happens(
    web: Web, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plan` tells files, rows, shards, slices, size and requests; asks nothing of the web, writes nothing."""
    before = sorted(tmp_path.rglob("*"))
    options = ["--nodes", "2", "--workers-per-node", "2", "--remainder", "drop"]
    assert ended(["plan", str(table.parent), *options]) == 0
    printed = capsys.readouterr().out
    for expected in ("source files", "rows planned", "rows 4 to 6", "2 x 2", "1 1 1 1", "requests", "estimated size"):
        assert expected in printed
    assert (before, not web.asked) == (sorted(tmp_path.rglob("*")), True)


WRONG = {
    "unknown column": (["--url-column", "link"], r"column 'link'; there are row, url, caption"),
    "near column": (["--url-column", "URL"], r"column 'URL'; did you mean 'url'?"),
    "no text": (["--url-column", "row"], "--url-column: 'row' holds int values, not links"),
    "unit": (["--chunk-bytes", "64XB"], "--chunk-bytes: '64XB' is not a size"),
    "range": (["--quality", "101"], "--quality: input should be less than or equal to 100, not '101'"),
    "shape below one": (["--max-aspect", "0.5"], "--max-aspect: input should be greater than or equal to 1, not '0.5'"),
    "shape of no end": (["--max-aspect", "inf"], "--max-aspect: input should be a finite number, not 'inf'"),
    "side below zero": (["--min-side", "-1"], "--min-side: input should be greater than or equal to 0, not '-1'"),
    "no memory": (["--picture-memory", "0MB"], "--picture-memory: '0MB' is out of range"),
    "choice": (["--resize", "stretch"], "--resize: input should be 'squash', 'crop', 'pad', 'keep' or 'none'"),
    "number": (["--nodes", "two"], "--nodes: input should be a valid integer"),
    "engine": (["--engine", "spark"], "--engine: input should be 'auto', 'threads', 'processes', 'dask' or 'ray'"),
    "transform": (["--transform", "no_module:f"], "--transform: module 'no_module' cannot be imported"),
    "double field": (["--columns", "row,row"], "--columns: two fields of a sample would be called 'row'"),
    "unknown option": (["--colour", "red"], "No such option '--colour'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_option_is_refused_in_one_line_when_wrong(
    web: Web, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    """Exit code 2, one line that names the option, nothing written, nothing asked of the web."""
    options, told = WRONG[wrong]
    assert ended(["ingest", str(table), str(tmp_path / "set"), *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert told in lines[0]
    assert not (tmp_path / "set").exists()
    assert not web.asked


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("none.parquet", "none.parquet does not exist; give a Parquet file, a folder of them, or a quoted pattern"),
        ("*.csv", "*.csv: no file matches the pattern"),
        (".", "no .parquet file in the folder"),
    ],
)
def test_source_is_refused_in_one_line_when_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, told: str
) -> None:
    """A missing file, a pattern without a match, a folder without a table."""
    (tmp_path / "notes.txt").touch()
    assert ended(["ingest", f"{tmp_path}/{source}", str(tmp_path / "set")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert told in lines[0]
    assert not (tmp_path / "set").exists()


def test_files_left_out_are_told_and_footers_read_once(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`plan`, `ingest` and `verify` name the files that are skipped; the flow takes the plan made before it."""
    folder, reads = write_broken_files(tmp_path / "meta", address=web.address), []

    def counted(files: Any, **given: Any) -> Any:  # noqa: ANN401 - as it is
        reads.append(len(files))
        return read_footers(files, **given)

    monkeypatch.setattr(planning, "read_footers", counted)
    printed = []
    assert ended(["plan", str(folder), "--on-bad-file", "skip"]) == 0
    printed.append(capsys.readouterr().out)
    assert [10] == reads
    assert ended(["ingest", str(folder), str(tmp_path / "set"), "--on-bad-file", "skip", "--engine", "threads"]) == 0
    printed.append(capsys.readouterr().out)
    assert [10, 10] == reads
    assert ended(["verify", str(tmp_path / "set")]) == 0
    printed.append(capsys.readouterr().out)
    for text in printed:
        assert re.search(r"^files left out +7 *$", text, re.MULTILINE)
        assert "e-zero-bytes.parquet: the file is empty (0 bytes)" in text
    assert re.search(r"unreadable-rows +20 ", printed[1])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        (" a , b,,", ["a", "b"]),
        ('"a,b", c," d "', ["a,b", "c", " d "]),
        ('"say ""x"""', ['say "x"']),
    ],
    ids=["plain", "blanks", "quoted", "quotation marks"],
)
def test_column_names_are_parted_at_commas(text: str, names: list[str]) -> None:
    """A name with a comma, or blanks around it, stands in quotation marks."""
    assert {"columns": names} == _given({"columns": (text,), "nodes": None})


def test_run_is_named_without_secrets_when_its_source_has_some(web: Web, tmp_path: Path) -> None:
    """The login of an address, and the values in its query, are in no run's name, nor in what is printed."""
    source = f"{web.address}/t.parquet?sig=SECRET".replace("http://", "http://me:SECRET@")
    state: Any = ingest(source=source, destination=str(tmp_path / "set"), return_state=True)
    assert state.is_failed()
    with get_client(sync_client=True) as client:
        name = client.read_flow_run(state.state_details.flow_run_id).name
    assert name.startswith("ingest-http://***@127.0.0.1")
    assert "SECRET" not in name + str(state.message)


def test_verify_ends_with_one_when_a_chunk_is_damaged(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged set is a failure, a folder without a set is a misuse."""
    assert ended(["ingest", str(table), str(tmp_path / "set"), "--engine", "threads"]) == 0
    chunk = next((tmp_path / "set").glob("chunk-*"))
    chunk.write_bytes(chunk.read_bytes()[:-1])
    capsys.readouterr()
    assert ended(["verify", str(tmp_path / "set")]) == 1
    assert chunk.name in capsys.readouterr().err
    assert ended(["verify", str(tmp_path / "t")]) == 2
    assert "holds no published data set" in capsys.readouterr().err


def test_destination_is_refused_before_the_run_when_it_is_in_use(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder with other files is refused with exit code 2."""
    assert ended(["ingest", str(table), str(tmp_path / "t")]) == 2
    assert "a.parquet" in capsys.readouterr().err


def test_every_option_has_help_and_is_a_parameter_of_the_flow() -> None:
    """Options, the flow's parameters and their descriptions are one list."""
    from prefect.utilities.callables import parameter_schema  # noqa: PLC0415

    schema = parameter_schema(ingest)
    assert set(IngestOptions.model_fields) == set(schema.properties)
    described = {name: field.description for name, field in IngestOptions.model_fields.items()}
    assert described == {name: each["description"] for name, each in schema.properties.items()}
    assert (["source", "destination"], 1) == (schema.required, schema.properties["nodes"]["minimum"])
    helped = {each.name for each in commands.commands["ingest"].params if getattr(each, "help", "")}
    assert helped == set(described) - {"source", "destination"}


def test_help_names_every_option_when_asked() -> None:
    """Options of the main job, each with its description."""
    printed = CliRunner().invoke(commands, ["ingest", "--help"]).output
    for name, field in IngestOptions.model_fields.items():
        if name not in {"source", "destination"}:
            assert f"{_typed(name)} " in printed
            assert " ".join((field.description or "").split()[:2]) in " ".join(printed.split())


def test_flow_takes_flat_parameters_by_position_and_name() -> None:
    """A function that takes options gets one value of them, from flat arguments."""

    @takes(PlanOptions)
    def plan(options: PlanOptions) -> PlanOptions:
        """Plan."""
        return options

    assert PlanOptions(source="x", nodes=3) == plan("x", nodes=3)
    assert "nodes: Machines" in inspect.cleandoc(plan.__doc__ or "")


@pytest.mark.parametrize("program", [["-m", "flows.ingest"], ["-m", "flows.cli", "ingest"]], ids=["flow", "command"])
def test_module_runs_as_a_program(table: Path, tmp_path: Path, program: list[str]) -> None:
    """`python -m flows.ingest` is the same command, with Prefect started by the run or set by the caller."""
    command = [sys.executable, *program, str(table), str(tmp_path / "set"), "--image-size", "8"]
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "7 rows = 7 stored" in done.stdout
    assert len(json.loads((tmp_path / "set/index.json").read_text())["chunks"]) == 1


def test_names_are_printed_as_they_are_when_they_look_like_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names come from strangers: no markup in them is followed, and nothing in them moves the cursor."""
    source = write_table(tmp_path / "data[train]/a.parquet", {"[/x]": ["a"], ":smile:": ["b"]})
    assert ended(["plan", str(source), "--transform", "rows"]) == 0
    assert "[/x]: str, :smile:: str" in capsys.readouterr().out
    assert ended(["plan", f"{tmp_path}/\x1b[2Jno\nsuch"]) == 2
    error = capsys.readouterr().err
    assert (1, True) == (len(error.splitlines()), "\\x1b[2Jno\\nsuch: no file matches the pattern" in error)


def test_server_is_the_profiles_when_none_is_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server set with `prefect config set` is used; the environment goes before it; without either there is none."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(tmp_path / "profiles.toml"))
    monkeypatch.delenv("PREFECT_PROFILE", raising=False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert api_url() is None
    text = 'active = "work"\n[profiles.work]\nPREFECT_API_URL = "http://127.0.0.1:1/api"\n'
    (tmp_path / "profiles.toml").write_text(text)
    assert api_url() == "http://127.0.0.1:1/api"
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:2/api")
    assert api_url() == "http://127.0.0.1:2/api"


def test_server_is_asked_first_when_one_is_set(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that does not answer is one line and exit code 2."""
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert ended(["ingest", str(table), str(tmp_path / "set")]) == 2
    error = capsys.readouterr().err
    assert (1, True) == (len(error.splitlines()), "no Prefect server answers at http://127.0.0.1:9/api" in error)


def test_modules_of_the_folder_stand_in_for_nobody_elses(table: Path, tmp_path: Path) -> None:
    """A `tasks.py` or `queue.py` where one stands is not taken for ours or Python's; a transform beside it is found."""
    for name in ("tasks", "queue", "polars"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken for another')\n")
    (tmp_path / "mine.py").write_text("def rows(frame):\n    yield from ({'row': row} for row in frame['row'])\n")
    program = "import sys; from flows.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-P", "-c", program, "ingest", str(table), str(tmp_path / "set")]
    given: dict[str, Any] = {"cwd": tmp_path, "env": environment(), "capture_output": True, "text": True}
    done = subprocess.run([*command, "--transform", "mine:rows"], check=False, timeout=240, **given)
    assert (0, "") == (done.returncode, done.stderr)
    assert list(range(7)) == [sample["row"] for sample in read_set(tmp_path / "set")]


def test_destination_that_cannot_be_written_is_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was begun, so it is a misuse, and one line says what is in the way."""
    (tmp_path / "set").symlink_to(tmp_path / "nowhere")
    assert ended(["ingest", str(table), str(tmp_path / "set"), "--engine", "threads"]) == 2
    assert "cannot be written in" in capsys.readouterr().err
