"""Samples of a set of texts. Apart from `texts`, since a process that only reads archives starts often."""

from __future__ import annotations

from typing import Final

from evenshard.core.recipe import Container, Field, Kind, SampleSchema

TEXT_SCHEMA: Final = SampleSchema(
    container=Container.DICT,
    fields=tuple(Field(name=name, kind=Kind.STR) for name in ("text", "archive", "member", "document")),
)
