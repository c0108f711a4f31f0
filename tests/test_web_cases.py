"""Faults of the web that people reported, row by row: what is stored, and the reason of all that is not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.core.recipe import ImageOptions
from evenshard.planning import Request
from tests.support.misbehaving_web import MisbehavingWeb
from tests.support.sets import outcomes_of, publish_table, read_set
from tests.support.tables import link_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_SECONDS = 1.5
MAX_BODY_BYTES = 8_000_000


@pytest.fixture
def web() -> Iterator[MisbehavingWeb]:
    """Give a server that misbehaves as each path says."""
    with MisbehavingWeb() as server:
        yield server


def fetch_rows(folder: Path, links: list[str | None], **fetch: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Make a set of links; check that it adds up and that each failure says enough; give the outcomes."""
    source = write_table(folder / "t.parquet", link_columns(links))
    request = Request(columns=("row",), image=ImageOptions(max_body_bytes=MAX_BODY_BYTES))
    manifest = publish_table(source, folder / "set", request, **fetch)
    rows = outcomes_of(folder / "set")
    stored = [row["row"] for row in rows if row["status"] == "stored"]

    assert manifest.counts.adds_up
    assert len(links) == manifest.counts.planned == len(rows)
    assert stored == [sample["row"] for sample in read_set(folder / "set")]
    assert [(str(source), row, link) for row, link in enumerate(links)] == [
        (row["source"], row["row"], row["url"]) for row in rows
    ]
    return rows


def reasons(rows: list[dict[str, Any]]) -> list[str | None]:
    """Give each row's reason; None for stored ones."""
    return [row["reason"] for row in rows]


def test_odd_cells_each_have_an_outcome(web: MisbehavingWeb, tmp_path: Path) -> None:
    """Null, blank, padded, equal, local, data, broken: each row alone is what it is, and no file is read.

    Source: rom1504/img2dataset#318, rom1504/img2dataset#438.
    """
    base, bare = web.base, web.base.removeprefix("http:")
    cells: list[tuple[str | None, str | None]] = [
        (f"{base}/ok?first", None),
        (None, "no-link"),
        ("", "no-link"),
        ("   ", "no-link"),
        (f"  {base}/ok?pad \n", None),
        *[(f"{base}/ok?same", None)] * 3,
        (f"{bare.removeprefix('//')}/ok", "bad-scheme"),
        (f"{bare}/ok", "bad-scheme"),
        ("file:///etc/hostname", "bad-scheme"),
        ("data:image/gif;base64,R0lGODlhAQABAAAAACw=", "bad-scheme"),
        ("ftp://127.0.0.1/ok", "bad-scheme"),
        (f"HTTP:{bare}/ok?upper", None),
        (f"{base}/ok?a=1&amp;b=2", None),
        (f"{base}/ok?frag#part", None),
        (f"{base}/ok?zw\u200b", None),
        ("http://", "bad-link"),
        ("http://[::1", "bad-link"),
        ("http://127.0.0.1:99999/ok", "bad-link"),
        (f"{base}/ok?nul\x00x", "bad-link"),
        ("http://xn--/", "bad-link"),
        ("http://256.1.1.1/", "bad-link"),
    ]
    rows = fetch_rows(tmp_path, [cell for cell, _ in cells])

    assert [reason for _, reason in cells] == reasons(rows)
    assert web.hits["/ok?same"] == 3
    assert web.hits["/ok?pad"] == 1


def test_failures_are_tried_again_as_the_table_says(web: MisbehavingWeb, tmp_path: Path) -> None:
    """429 with seconds, a date, nothing, nonsense, a day; 503 and then a picture; 403, 404, 410; TLS; refused.

    Source: rom1504/img2dataset#62, #333, #452, #108.
    """
    paths: list[tuple[str, str | None, int]] = [
        ("429-twice", None, 3),
        ("429-until", None, 2),
        ("429", "http-rate-limited", 3),
        ("429-day", "http-rate-limited", 1),
        ("429-nonsense", None, 2),
        ("503-twice", None, 3),
        ("503", "http-server-error", 3),
        ("404", "http-status", 1),
        ("410", "http-status", 1),
        ("403", "http-status", 1),
    ]
    links: list[str | None] = [f"{web.base}/{path}" for path, _, _ in paths]
    links += [web.base.replace("http:", "https:") + "/ok", "http://127.0.0.1:1/ok", f"{web.base}/ok?last"]
    start = time.monotonic()
    rows = fetch_rows(tmp_path, links)

    assert [*(reason for _, reason, _ in paths), "tls-failed", "connect-failed", None] == reasons(rows)
    assert [number for _, _, number in paths] == [web.hits[f"/{path}"] for path, _, _ in paths]
    assert "wait 86400 s, more than the 30 s given" in rows[3]["detail"]
    assert 2.0 <= time.monotonic() - start < 60  # two waits of a second, and a few back-offs


def test_slow_and_endless_answers_end(web: MisbehavingWeb, tmp_path: Path) -> None:
    """A drip of body or head, silence, bodies without end, 10 GB declared: two reasons, soon; the good row is stored.

    Source: rom1504/img2dataset#437, #289, encode/httpx#1450.
    """
    paths = ["drip-body", "drip-head", "silent", "endless", "endless-chunks", "declared", "ok"]
    links: list[str | None] = [f"{web.base}/{path}" for path in paths]
    start = time.monotonic()
    rows = fetch_rows(tmp_path, links, timeout_seconds=TIMEOUT_SECONDS)

    assert [*["too-slow"] * 3, *["too-large"] * 3, None] == reasons(rows)
    assert "are declared; the limit is 8000000 bytes" in rows[5]["detail"]
    assert time.monotonic() - start < 3 * TIMEOUT_SECONDS + 5 + 10  # so much for a busy machine; a drip takes minutes
    assert [1, 1, 1] == [web.hits[f"/{path}"] for path in paths[3:6]]


def test_redirects_are_followed_so_far_and_no_farther(web: MisbehavingWeb, tmp_path: Path) -> None:
    """Chains of 1, 4 and 60, loops, no Location, relative, to a 404, to a page: the last address is named.

    Source: rom1504/img2dataset#442, httpie/cli#157.
    """
    paths: list[tuple[str, str | None, str]] = [
        ("chain/1", None, ""),
        ("chain/4", None, ""),
        ("chain/60", "too-many-redirects", f"(at {web.base}/chain/55)"),
        ("loop-a", "too-many-redirects", f"(at {web.base}/loop-b)"),
        ("to-self", "too-many-redirects", "more than 5"),
        ("to-nowhere", "bad-redirect", "HTTP 302 without a Location"),
        ("to-relative", None, ""),
        ("to-404", "http-status", f"HTTP 404 (at {web.base}/404)"),
        ("to-page", "not-a-picture", f"(at {web.base}/page)"),
    ]
    rows = fetch_rows(tmp_path, [f"{web.base}/{path}" for path, _, _ in paths])

    assert [reason for _, reason, _ in paths] == reasons(rows)
    assert [True] * len(paths) == [said in row["detail"] for row, (_, _, said) in zip(rows, paths, strict=True)]
    assert (6, 3, 3) == (web.hits["/to-self"], web.hits["/loop-a"], web.hits["/loop-b"])


def test_coded_bodies_are_whole_or_named(web: MisbehavingWeb, tmp_path: Path) -> None:
    """Unasked gzip, with and without a length, is taken off; a false label, a cut and a bomb are failures by name.

    Source: mikf/gallery-dl#2267, postmanlabs/httpbin#577.
    """
    paths = ["gzip", "gzip-chunked", "gzip-false", "gzip-cut", "bomb", "brotli"]
    rows = fetch_rows(tmp_path, [f"{web.base}/{path}" for path in paths])
    assert [None, None, "bad-answer", "cut-short", "too-large", "bad-answer"] == reasons(rows)


def test_content_decides_when_body_and_label_disagree(web: MisbehavingWeb, tmp_path: Path) -> None:
    """No byte, 204, page, JSON, SVG, six bytes of GIF; JPEG as text, without a type, and with a tail.

    Source: Lightning-AI/litData#660, rom1504/img2dataset#440.
    """
    paths = ["zero", "204", "page", "json", "svg", "gif-header", "jpeg-as-text", "until-close", "jpeg-tail"]
    rows = fetch_rows(tmp_path, [f"{web.base}/{path}" for path in paths])

    empty, other = ["empty-body"] * 2, ["not-a-picture"] * 3
    assert [*empty, *other, "broken-picture", None, None, None] == reasons(rows)
    assert ["JPEG"] * 3 == [row["original_format"] for row in rows[-3:]]
