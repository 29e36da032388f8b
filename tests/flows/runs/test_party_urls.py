"""A party's run fetches nothing: its files are on its own machine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ksdp.audit.errors import InputError
from ksdp.flows.runs import party


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ('path = "s3://bucket/a.npz"', "path"),
        ('path = "a.npz"\nvocabulary = "gs://bucket/terms"', "vocabulary"),
        ('path = "a.npz"\n[corpus.levers]\nterms = "s3://bucket/terms"', "levers.terms"),
    ],
)
def test_a_url_is_refused_before_anything_is_read(keys: str, named: str, tmp_path: Path) -> None:
    spec, run = tmp_path / "spec.toml", SimpleNamespace(spec=None)
    spec.write_text(f'[corpus]\n{keys}\n[mechanism]\nname = "pd-svd"\n')
    asked: dict[str, Any] = {"signer": None, "now": None, "clearance": None, "uncleared": True}
    with pytest.raises(InputError, match=f"`corpus.{named}` is at a URL"):
        party.enter_documents(cast(Any, run), spec, **asked)
