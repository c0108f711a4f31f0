"""Odd links and pictures of public bug reports, through the whole flow: each row has its outcome."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, ImageDraw

from flows.ingest import ingest
from tests.support.pictures import jpeg, saved, scene
from tests.support.sets import outcomes_of, read_set
from tests.support.tables import flipped, link_columns, write_table
from tests.support.web import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.web import Web


def run(tmp_path: Path, links: Sequence[str | None], **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Ingest links; gives the outcome of each row, the sample of stored ones beside it."""
    source = write_table(tmp_path / "t.parquet", link_columns(links))
    given = {"caption_column": "caption", "engine": "threads", "timeout": 3, "attempts": 1, **options}
    result = ingest(source=str(source), destination=str(tmp_path / "set"), **given)
    rows, samples = outcomes_of(tmp_path / "set"), iter(read_set(tmp_path / "set"))
    assert len(links) == len(rows) == result["planned"]
    assert len(links) == result["stored"] + sum(result["failed"].values()) + sum(result["filtered"].values())
    assert list(range(len(links))) == [row["row"] for row in rows]
    for row in rows:
        if row["status"] == "stored":
            row["sample"] = next(samples)
            row["picture"] = Image.open(io.BytesIO(row["sample"]["image"]))
    return rows


def test_odd_links_have_outcomes_when_ingested(web: Web, tmp_path: Path) -> None:
    """The public case C06: 21 odd cells; none ends, reorders or hangs the others, and no local file is read."""
    ok = f"{web.address}/ok.jpg"
    (tmp_path / "secret.jpg").write_bytes(jpeg())
    cells: list[tuple[str | None, str | None]] = [
        (f"{ok}?first", None),
        (None, "no-link"),
        ("", "no-link"),
        ("   ", "no-link"),
        (f"  {ok}?pad \n", None),
        (f"{ok}?same", None),
        (f"{ok}?same", None),
        (f"{ok}?same", None),
        (ok.removeprefix("http://"), "bad-scheme"),
        (ok.removeprefix("http:"), "bad-scheme"),
        (f"file://{tmp_path}/secret.jpg", "bad-scheme"),
        ("data:image/gif;base64,R0lGODlhAQABAAAAACw=", "bad-scheme"),
        ("ftp://127.0.0.1/ok.jpg", "bad-scheme"),
        (ok.replace("http", "HTTP", 1) + "?upper", None),
        (f"{ok}?a=1&amp;b=2", None),
        (f"{ok}?frag#part", None),
        (f"{ok}?zw\u200b", None),
        ("http://", "bad-link"),
        ("http://[::1", "bad-link"),
        (f"{web.address.rsplit(':', 1)[0]}:99999/ok.jpg", "bad-link"),
        (f"{ok}?nul\x00x", "bad-link"),
    ]
    rows = run(tmp_path, [link for link, _ in cells])
    assert [reason for _, reason in cells] == [row["reason"] for row in rows]
    assert [link for link, _ in cells] == [row["url"] for row in rows]
    assert web.asked["/ok.jpg?same"] == 3
    assert "/ok.jpg?frag" in web.asked


def test_content_decides_when_body_and_label_disagree(web: Web, tmp_path: Path) -> None:
    """The public case C17: empty, page, JSON, SVG, stub; wrong or no label; bytes after the end."""
    bodies: list[tuple[Answer, str | None, str | None]] = [
        (Answer(), "empty-body", None),
        (Answer(status=204), "empty-body", None),
        (Answer(body=b"<!doctype html><html><title>Agree</title></html>"), "not-a-picture", None),
        (Answer(body=b'{"error": "not found"}', kind="image/png"), "not-a-picture", None),
        (Answer(body=b'<svg xmlns="http://www.w3.org/2000/svg"/>', kind="image/svg+xml"), "not-a-picture", None),
        (Answer(body=b"GIF89a", kind="image/gif"), "broken-picture", None),
        (Answer(body=jpeg(), kind="text/plain"), None, "JPEG"),
        (Answer(body=jpeg(), kind=None), None, "JPEG"),
        (Answer(body=saved(scene(), "PNG"), kind="image/jpeg"), None, "PNG"),
        (Answer(body=jpeg() + b"\0tail" * 820), None, "JPEG"),
    ]
    web.answers = {f"/{number}": answer for number, (answer, _, _) in enumerate(bodies)}
    rows = run(tmp_path, [f"{web.address}{path}" for path in web.answers])
    assert [reason for _, reason, _ in bodies] == [row["reason"] for row in rows]
    assert [kind for _, _, kind in bodies] == [row["original_format"] for row in rows]
    assert {"JPEG"} == {row["picture"].format for row in rows if row["status"] == "stored"}


def disc(mode: str) -> Image.Image:
    """Draw a dark disc on a clear ground."""
    image = Image.new("RGBA", (96, 96), (0, 0, 0, 0))
    ImageDraw.Draw(image).ellipse((24, 24, 72, 72), fill=(20, 20, 20, 255))
    return image if mode == "RGBA" else image.convert(mode)


def clear_pictures() -> list[bytes]:
    """Draw the case C19: the disc with every kind of transparency, a 1-bit picture last."""
    palette = Image.new("P", (96, 96), 0)
    palette.putpalette([0, 0, 0, 20, 20, 20] + [0] * 750)
    ImageDraw.Draw(palette).ellipse((24, 24, 72, 72), fill=1)
    key = Image.new("RGB", (96, 96), (0, 0, 0))
    ImageDraw.Draw(key).ellipse((24, 24, 72, 72), fill=(20, 20, 20))
    bits = Image.new("1", (96, 96), 1)
    ImageDraw.Draw(bits).ellipse((24, 24, 72, 72), fill=0)
    return [
        saved(disc("RGBA"), "PNG"),
        saved(disc("LA"), "PNG"),
        saved(palette, "PNG", transparency=b"\x00\xff"),
        saved(palette, "PNG", transparency=0),
        saved(key, "PNG", transparency=(0, 0, 0)),
        saved(palette, "GIF", transparency=0),
        saved(disc("RGBA"), "WEBP", lossless=True),
        saved(bits, "PNG"),
        saved(scene(96, 96).quantize(16), "PNG"),
    ]


def test_ground_is_light_when_it_was_clear(web: Web, tmp_path: Path) -> None:
    """The public case C19: nine RGB samples; the ground is white, the disc dark; the 1-bit edge is smoothed."""
    web.answers = {f"/{number}.png": Answer(body=body) for number, body in enumerate(clear_pictures())}
    rows = run(tmp_path, [f"{web.address}{path}" for path in web.answers], image_size=40, encode="png")
    assert ["stored"] * 9 == [row["status"] for row in rows], [row["detail"] for row in rows]
    assert {("RGB", (40, 40))} == {(row["picture"].mode, row["picture"].size) for row in rows}
    for row in rows[:8]:
        corner, centre = row["picture"].getpixel((0, 0)), row["picture"].getpixel((20, 20))
        assert corner == (255, 255, 255)
        assert max(centre) <= 30
    edge = {row["picture"].getpixel((x, 20)) for row in rows[7:8] for x in range(40)}
    assert len(edge) >= 3


def test_cut_pictures_fail_when_whole_ones_are_stored(web: Web, tmp_path: Path) -> None:
    """The public case C20: halves, a first scan, a broken checksum; never stored grey or black."""
    base, progressive, png = jpeg(), jpeg(progressive=True), saved(scene(), "PNG")
    second_scan = progressive.index(b"\xff\xda", progressive.index(b"\xff\xda") + 2)
    bodies: list[tuple[bytes, str | None]] = [
        (progressive, None),
        (base[: len(base) // 2], "broken-picture"),
        (progressive[: len(progressive) // 2], "broken-picture"),
        (progressive[:second_scan], "broken-picture"),
        (png[: len(png) // 2], "broken-picture"),
        (flipped(png, len(png) - 40, 2), "broken-picture"),
        (base[:200], "broken-picture"),
        (base, None),
    ]
    web.answers = {f"/{number}": Answer(body=body) for number, (body, _) in enumerate(bodies)}
    rows = run(tmp_path, [f"{web.address}{path}" for path in web.answers], engine_workers=1)
    assert [reason for _, reason in bodies] == [row["reason"] for row in rows], [row["detail"] for row in rows]


def test_pictures_are_left_out_by_size_and_shape_when_asked(web: Web, tmp_path: Path) -> None:
    """Too small, too oblong, too few pixels: filtered, with their size, pixels unseen; too hungry: failed."""
    cut = jpeg(60, 50, quality=100)
    bodies: list[tuple[bytes, str, str | None, tuple[int, int]]] = [
        (jpeg(90, 80), "stored", None, (90, 80)),
        (jpeg(50, 49), "filtered", "too-small", (50, 49)),
        (cut[:-900], "failed", "broken-picture", (60, 50)),
        (jpeg(49, 50, quality=100)[:-900], "filtered", "too-small", (49, 50)),
        (jpeg(50, 59), "filtered", "too-small", (50, 59)),
        (saved(scene(181, 60), "PNG"), "filtered", "too-oblong", (181, 60)),
        (saved(scene(60, 180), "PNG"), "stored", None, (60, 180)),
        (saved(scene(900, 900), "WEBP"), "failed", "too-many-pixels", (900, 900)),
        (turned(6, "JPEG"), "filtered", "too-small", (40, 80)),
    ]
    web.answers = {f"/{number}": Answer(body=body) for number, (body, *_) in enumerate(bodies)}
    links = [f"{web.address}{path}" for path in web.answers]
    rows = run(tmp_path, links, min_side=50, max_aspect=3, min_area=2_951, picture_memory="9MB")
    assert [(status, reason) for _, status, reason, _ in bodies] == [(row["status"], row["reason"]) for row in rows]
    assert [size for *_, size in bodies] == [(row["original_width"], row["original_height"]) for row in rows]
    assert ["JPEG"] * 5 + ["PNG"] * 2 + ["WEBP", "JPEG"] == [row["original_format"] for row in rows]


TURNS = {
    "normal": (1, "JPEG", (80, 40), "left"),
    "half": (3, "JPEG", (80, 40), "right"),
    "quarter": (6, "JPEG", (40, 80), "top"),
    "other quarter": (8, "JPEG", (40, 80), "bottom"),
    "mirror": (5, "JPEG", (40, 80), "top"),
    "unknown": (9, "JPEG", (80, 40), "left"),
    "quarter PNG": (6, "PNG", (40, 80), "top"),
}


def turned(tag: int, kind: str) -> bytes:
    """Draw a picture that is red on the left and blue on the right, with an EXIF orientation."""
    image = Image.new("RGB", (80, 40), (200, 30, 30))
    ImageDraw.Draw(image).rectangle((40, 0, 79, 39), fill=(30, 30, 200))
    exif = Image.Exif()
    exif[0x0112] = tag
    return saved(image, kind, exif=exif.tobytes(), **({"quality": 95} if kind == "JPEG" else {}))


@pytest.mark.parametrize("resize", ["none", "keep"])
def test_pictures_stand_upright_when_turned_by_exif(web: Web, tmp_path: Path, resize: str) -> None:
    """The public case C21: upright, sizes and red side right, no tag left, a damaged block ignored."""
    damaged = bytearray(turned(6, "JPEG"))
    at = damaged.index(b"Exif\x00\x00") + 6
    damaged[at : at + 8] = b"\xff" * 8
    bodies = [turned(tag, kind) for tag, kind, _, _ in TURNS.values()] + [bytes(damaged)]
    web.answers = {f"/{number}": Answer(body=body) for number, body in enumerate(bodies)}
    rows = run(tmp_path, [f"{web.address}{path}" for path in web.answers], resize=resize)
    assert ["stored"] * 8 == [row["status"] for row in rows]
    for row, (_, _, size, side) in zip(rows, TURNS.values(), strict=False):
        picture = row["picture"]
        assert (size, size) == (picture.size, (row["width"], row["height"]))
        assert size == (row["original_width"], row["original_height"])
        assert picture.getexif().get(0x0112, 1) == 1
        width, height = size
        spots = {
            "left": (5, height // 2),
            "right": (width - 6, height // 2),
            "top": (width // 2, 5),
            "bottom": (width // 2, height - 6),
        }
        red, _, blue = picture.convert("RGB").getpixel(spots[side])
        assert red > blue + 100
