"""TOML that a person wrote: read, or refused by the file's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ksdp.audit.errors import SpecError
from ksdp.storage.readers.files import read_toml


def test_tables_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("seed = 7\n[corpus]\npath = 'x'\n")
    assert read_toml(path) == {"seed": 7, "corpus": {"path": "x"}}


@pytest.mark.parametrize(("what", "said"), [("", ""), ("the spec", "the spec ")])
def test_what_is_no_toml_is_refused(what: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(SpecError, match=f"^{said}{path} cannot be read: No such file"):
        read_toml(path, what)
    for content in (b"seed = ", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(SpecError, match=rf"^{said}a\.toml is not TOML: "):
            read_toml(path, what)
