"""The flow `ingest-text`: each document of each archive once, whatever is broken, and whoever does it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from evenshard import ChunkLoader, OpenWebTextLoader
from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import BadSourcesError, OptionError, TooManyFailuresError, UnfinishedError
from evenshard.core.layout import RECEIPTS
from evenshard.core.plan import Mode
from evenshard.core.recipe import TEXTS
from evenshard.generations import read_manifest
from evenshard.inspection import Depth, verify
from evenshard.planning import Request, make_plan
from flows import ingest as ingest_module
from flows.repair import repair
from flows.retry import retry_failed
from flows.text import ingest_text
from tests.support.archives import (
    BAD_TEXTS,
    EMPTY_TEXTS,
    GOOD_TEXTS,
    documents,
    faulty_members,
    odd_texts,
    packed,
    tar,
    write_archive,
    write_archives,
    write_uneven,
)
from tests.support.commands import ended
from tests.support.processes import kill_all
from tests.support.programs import ROOT, environment
from tests.support.sets import outcomes_of, published_bytes, read_set

if TYPE_CHECKING:
    from collections.abc import Callable


def run(source: Path | str, destination: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the flow's own
    """Run the flow with two members in a slice."""
    given = {"engine": "threads", "members_per_slice": 2, **options}
    result: dict[str, Any] = ingest_text(source=str(source), destination=str(destination), **given)
    return result


def kept(folder: Path) -> list[tuple[str, str, str]]:
    """Give archive, member and document of each sample, in order; the set must be whole to the last field."""
    verify(LocalStore(folder), depth=Depth.DEEP)
    return [(sample["archive"], sample["member"], sample["document"]) for sample in read_set(folder)]


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Write two archives of three members with five documents each."""
    write_archives(tmp_path / "a", archives=2, members=3, count=5)
    return tmp_path / "a"


# --- Each document once


def test_loader_gives_the_documents_of_the_archives_when_they_are_ingested(archives: Path, tmp_path: Path) -> None:
    """A loader over the set gives what the archive loader gives from the archives themselves, broken members or not."""
    write_archive(archives / "x/faulty.tar", {**faulty_members(), "odd.xz": odd_texts()})
    run(archives, tmp_path / "set", workers_per_node=3, on_bad_file="skip")
    from_set = Counter((name, text) for _, name, text in ChunkLoader(tmp_path / "set", random_state=1))
    paths = [str(path) for path in sorted(archives.rglob("*.tar"))]
    from_archives = Counter((name, text) for _, name, text in OpenWebTextLoader(paths, num_workers=0, random_state=2))
    assert 30 + 13 + 6 == from_set.total()
    assert from_archives == from_set


def test_faulty_members_have_an_outcome_each_when_ingested(tmp_path: Path) -> None:
    """Of ten members the four broken ones fail by name, once each; the thirteen documents of the others are stored."""
    path = write_archive(tmp_path / "outer.tar", faulty_members())
    result = run(path, tmp_path / "set")
    failed = {"broken-archive": 2, "not-an-archive": 2}
    assert (17, 13, {}, failed) == tuple(result[name] for name in ("planned", "stored", "filtered", "failed"))
    members = Counter(Path(member).stem for _, member, _ in kept(tmp_path / "set"))
    assert {"good0": 3, "good1": 2, "two-streams": 4, "gzip-inside": 2, "not-packed": 2} == members
    lost = [row for row in outcomes_of(tmp_path / "set") if row["status"] != "stored"]
    assert {("empty", 1), ("corrupt", 2), ("cut", 3), ("text-not-tar", 6)} == {
        (Path(row["member"]).stem, row["row"]) for row in lost
    }
    assert {(str(path), None)} == {(row["source"], row["document"]) for row in lost}


def test_odd_texts_are_stored_filtered_or_failed_when_ingested(tmp_path: Path) -> None:
    """Twelve texts: six stored sign for sign, two filtered as empty, four failed; all named in the outcomes."""
    result = run(write_archive(tmp_path / "one.tar", {"m.xz": odd_texts()}), tmp_path / "set")
    names = ("planned", "stored", "filtered", "failed")
    assert (12, 6, {"empty-text": 2}, {"not-utf-8": 4}) == tuple(result[name] for name in names)
    assert GOOD_TEXTS == {sample["document"]: sample["text"] for sample in read_set(tmp_path / "set")}
    ended_as = {(row["member"], row["document"]): row["status"] for row in outcomes_of(tmp_path / "set")}
    expected = {"stored": list(GOOD_TEXTS), "failed": list(BAD_TEXTS), "filtered": list(EMPTY_TEXTS)}
    assert {("m.xz", name): status for status, texts in expected.items() for name in texts} == ended_as


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_each_document_is_there_once_when_workers_outnumber_members(tmp_path: Path, workers: int) -> None:
    """Members of seven documents, one and none, shared by more ranks than there are members: eight samples."""
    result = run(write_uneven(tmp_path / "u.tar"), tmp_path / "set", workers_per_node=workers, members_per_slice=1)
    assert (8, 8, workers) == (result["planned"], result["stored"], len(result["rows_per_rank"]))
    assert [f"a/{number:07d}.txt" for number in range(7)] + ["b/0000000.txt"] == [
        document for _, _, document in kept(tmp_path / "set")
    ]


def test_archives_of_one_base_name_are_told_apart(tmp_path: Path) -> None:
    """Samples bear the archive's path below the source, so that two of one name stay two."""
    for folder in ("x", "y"):
        write_archive(tmp_path / "a" / folder / "same.tar", {"m.xz": packed(documents(2, "d"))})
    assert 4 == run(tmp_path / "a", tmp_path / "set")["stored"]
    assert {"x/same.tar": 2, "y/same.tar": 2} == Counter(archive for archive, _, _ in kept(tmp_path / "set"))


def test_archive_without_members_is_ordinary(archives: Path, tmp_path: Path) -> None:
    """It gives nothing and stops nothing; alone, it makes a whole set without a sample."""
    (archives / "0.tar").write_bytes(tar([]))
    assert 30 == run(archives, tmp_path / "set")["stored"]
    alone = run(archives / "0.tar", tmp_path / "alone", workers_per_node=2)
    assert (0, 0, [0, 0]) == (alone["planned"], alone["slices"], alone["rows_per_rank"])
    assert [] == kept(tmp_path / "alone")


# --- Bad archives


def spoil(archives: Path) -> dict[str, str]:
    """Add an empty archive, one that is none, and a cut one; gives what is told of each."""
    (archives / "b-empty.tar").write_bytes(b"")
    (archives / "c-text.tar").write_bytes(b"no tar at all\n" * 100)
    whole = write_archive(archives / "d-cut.tar", {f"{tag}.xz": packed(documents(2, tag)) for tag in "pq"})
    whole.write_bytes(whole.read_bytes()[:1600])
    return {"b-empty": "it is empty", "c-text": "it looks like text", "d-cut": "member q.xz: it is cut"}


def test_all_bad_archives_are_named_at_once(archives: Path, tmp_path: Path) -> None:
    """Empty, no tar, cut: each with its reason, before anything is written."""
    told = spoil(archives)
    with pytest.raises(BadSourcesError) as caught:
        run(archives, tmp_path / "set")
    problems = {Path(path).stem: reason for path, reason in caught.value.problems}
    assert told.keys() == problems.keys()
    assert all(reason in problems[name] for name, reason in told.items())
    assert not (tmp_path / "set").exists()


def test_bad_archives_are_recorded_when_they_are_skipped(archives: Path, tmp_path: Path) -> None:
    """What is no tar is left out by name; of a cut one the whole members are stored, and the cut one fails."""
    spoil(archives)
    result = run(archives, tmp_path / "set", on_bad_file="skip")
    assert {"b-empty", "c-text"} == {Path(path).stem for path in result["left_out"]}
    assert (33, 32, {"broken-archive": 1}) == (result["planned"], result["stored"], result["failed"])
    lost = [row for row in outcomes_of(tmp_path / "set") if row["status"] == "failed"]
    assert [("d-cut", "q.xz")] == [(Path(row["source"]).stem, row["member"]) for row in lost]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("none.tar", "does not exist; give a .tar file"),
        ("http://127.0.0.1/a.tar", "archives are read from folders of this machine only"),
        (".", "no .tar file in the folder|the folder is empty"),
    ],
)
def test_source_without_archives_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    """What is no archive, nor holds any, is named."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=told):
        make_plan(source, Request(transform=TEXTS))


def test_nothing_is_published_when_too_many_documents_fail(tmp_path: Path) -> None:
    """The share is that of documents, not of members."""
    path = write_archive(tmp_path / "one.tar", {"m.xz": odd_texts()})
    with pytest.raises(TooManyFailuresError, match=r"4 of 12 rows failed \(33\.3%\)"):
        run(path, tmp_path / "set", max_failure_rate=0.3)
    assert 6 == run(path, tmp_path / "set", max_failure_rate=0.34)["stored"]


def test_run_fails_by_name_when_an_archive_changes_meanwhile(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that is another one when its members are read gives no sample."""
    do = ingest_module.run_slices

    def changed(*args: Any, **options: Any) -> dict[int, str]:  # noqa: ANN401 - as the function replaced
        write_archive(archives / "subset01.tar", {"m.xz": packed(documents(9, "other"))})
        return do(*args, **options)

    monkeypatch.setattr(ingest_module, "run_slices", changed)
    with pytest.raises(UnfinishedError, match=r"subset01\.tar has changed since it was planned"):
        run(archives, tmp_path / "set")
    assert not (tmp_path / "set/manifest.json").exists()


# --- The same bytes


def test_bytes_are_the_same_whoever_does_it(archives: Path, tmp_path: Path) -> None:
    """One thread, four, or four processes: chunks, outcomes, manifest and index are the same bytes."""
    runs = [("threads", 1), ("threads", 4), ("processes", 4)]
    sets = []
    for number, (engine, workers) in enumerate(runs):
        options = {"engine": engine, "engine_workers": workers, "workers_per_node": 2, "chunk_bytes": "1kB"}
        run(archives, tmp_path / f"set{number}", **options)
        sets.append(published_bytes(tmp_path / f"set{number}"))
    assert len([name for name in sets[0] if name.startswith("chunk-")]) > 6
    assert [sets[0]] * 3 == sets


def kill_when(process: subprocess.Popen[bytes], is_due: Callable[[], bool]) -> None:
    """Kill a program in the middle, with all that it started."""
    while process.poll() is None:
        if is_due():
            kill_all(psutil.Process(process.pid))
            break
        psutil.Process().cpu_percent(interval=0.005)
    process.wait(60)


def test_bytes_are_the_same_when_killed_in_the_middle(tmp_path: Path) -> None:
    """Killed with some slices signed for, run again: the bytes of an undisturbed run, and nothing besides."""
    write_archives(tmp_path / "a", archives=2, members=12, count=150)
    run(tmp_path / "a", tmp_path / "undisturbed", members_per_slice=1)
    receipts = tmp_path / "set" / RECEIPTS
    command = [sys.executable, "-m", "flows.cli", "text", str(tmp_path / "a"), str(tmp_path / "set")]
    command += ["--members-per-slice", "1", "--engine", "processes", "--engine-workers", "1"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL) as process:
        kill_when(process, lambda: len(list(receipts.rglob("*.json"))) >= 3)
    assert not (tmp_path / "set/manifest.json").exists()
    signed = {path: path.stat().st_mtime_ns for path in receipts.rglob("*.json")}
    assert 3 <= len(signed) < 24

    assert 3600 == run(tmp_path / "a", tmp_path / "set", members_per_slice=1)["stored"]
    assert published_bytes(tmp_path / "undisturbed") == published_bytes(tmp_path / "set")
    assert signed == {path: path.stat().st_mtime_ns for path in signed}


# --- Sets that grow, and their upkeep


def test_new_archives_are_added_when_there_are_some(archives: Path, tmp_path: Path) -> None:
    """Appending takes new archives only; nothing new is said; a changed one is refused, or taken again."""
    first = run(archives, tmp_path / "set", mode="append", workers_per_node=2)
    assert first == run(archives, tmp_path / "set", mode="append", workers_per_node=2)
    write_archive(archives / "0.tar", {"m.xz": packed(documents(4, "new"))})
    second = run(archives, tmp_path / "set", mode="append", workers_per_node=2)
    assert (1, 30, 2, 34) == (first["generation"], first["stored"], second["generation"], second["stored"])
    assert ["0.tar"] * 4 == [archive for archive, _, _ in kept(tmp_path / "set")[30:]]

    write_archive(archives / "subset01.tar", {"n.xz": packed(documents(1, "changed"))})
    with pytest.raises(BadSourcesError, match=r"subset01\.tar: has changed since samples were made from it"):
        run(archives, tmp_path / "set", mode="append", workers_per_node=2)
    options = {"mode": "append", "on_changed_source": "reingest", "workers_per_node": 2}
    third = run(archives, tmp_path / "set", **options)
    assert (3, 20, 20) == (third["generation"], third["planned"], third["stored"])
    found = Counter(archive for archive, _, _ in kept(tmp_path / "set"))
    assert {"subset00.tar": 15, "0.tar": 4, "subset01.tar": 1} == found


def test_append_that_was_stopped_is_finished(archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run, with more archives by then, finishes it and goes on."""
    run(archives, tmp_path / "set", mode="append")
    write_archive(archives / "n.tar", {"m.xz": packed(documents(2, "n"))})
    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "publish_set", None)
        with pytest.raises(TypeError):
            run(archives, tmp_path / "set", mode="append")
    write_archive(archives / "o.tar", {"m.xz": packed(documents(3, "o"))})
    assert (3, 35) == tuple(run(archives, tmp_path / "set", mode="append")[name] for name in ("generation", "stored"))
    assert 35 == len(set(kept(tmp_path / "set")))


def test_overwritten_set_is_rolled_back(archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Overwriting begins anew; the old state can be had back; history names both."""
    run(archives, tmp_path / "set")
    write_archive(archives / "subset01.tar", {"m.xz": packed(documents(1, "only"))})
    assert (2, 16) == tuple(run(archives, tmp_path / "set", mode="overwrite")[n] for n in ("generation", "stored"))
    assert 0 == ended(["rollback", str(tmp_path / "set"), "1"])
    assert 30 == len(kept(tmp_path / "set"))
    assert 0 == ended(["history", str(tmp_path / "set")])
    words = capsys.readouterr().out.split()
    assert all(mode in words for mode in (Mode.CREATE, Mode.OVERWRITE, Mode.ROLLBACK))


def test_bad_chunk_is_made_again_when_repaired(archives: Path, tmp_path: Path) -> None:
    """A damaged chunk is made of its members again: the same bytes, the same generation."""
    run(archives, tmp_path / "set")
    before = published_bytes(tmp_path / "set")
    chunk = min((tmp_path / "set").glob("chunk-*"))
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    assert 1 == repair(destination=str(tmp_path / "set"), engine="threads")["generation"]
    assert before == published_bytes(tmp_path / "set")


def test_nothing_is_tried_again_when_documents_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is broken in an archive stays so: retry-failed says that nothing may have passed."""
    result = run(write_archive(tmp_path / "a.tar", {**faulty_members(), "odd.xz": odd_texts()}), tmp_path / "set")
    assert result == retry_failed(destination=str(tmp_path / "set"), engine="threads")
    assert "no row failed in a way that may have passed" in caplog.text
    assert 1 == read_manifest(LocalStore(tmp_path / "set")).generation


def test_command_line_names_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`text` counts documents, and `outcomes --failed` names archive, member and document of each."""
    monkeypatch.setenv("PREFECT_API_URL", environment()["PREFECT_API_URL"])
    path = write_archive(tmp_path / "a.tar", {"m.xz": odd_texts()})
    assert 0 == ended(["text", str(path), str(tmp_path / "set"), "--engine", "threads"])
    told = capsys.readouterr().out
    assert "1 members of 1 archives, in 1 slices" in told
    assert "12 documents = 6 stored + 2 filtered + 4 failed" in told
    assert 0 == ended(["outcomes", str(tmp_path / "set"), "--failed"])
    assert f"{path} member m.xz, document b-latin1.txt" in capsys.readouterr().out
    assert 2 == ended(["text", str(path), str(tmp_path / "set"), "--members-per-slice", "0"])
    assert 2 == ended(["ingest", str(path), str(tmp_path / "other"), "--transform", "texts"])
