"""TOML that a person wrote: read, or refused by the file's name."""

import gzip
from pathlib import Path

import pytest

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.storage.files import contents, decoded, read_toml


def test_contents_are_decompressed(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo"))
    (tmp_path / "a.txt").write_bytes(b"one\ntwo")
    assert contents(tmp_path / "a.txt.gz") == contents(tmp_path / "a.txt") == b"one\ntwo"


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(CorpusError, match=r"^a.txt: there is no such file"):
        contents(tmp_path / "a.txt")
    with pytest.raises(CorpusError, match=r"is a folder"):
        contents(tmp_path)
    with pytest.raises(CorpusError, match=r"is not a path"):
        contents(tmp_path / "a\0b")


def test_damaged_compression_is_refused_wherever_it_is_cut(tmp_path):
    whole = gzip.compress(b"0123456789" * 50)
    path = tmp_path / "a.gz"
    for stop in range(1, len(whole)):
        path.write_bytes(whole[:stop])
        with pytest.raises(CorpusError, match=r"^a.gz: is damaged, cut short or not gzip"):
            contents(path)
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 255]) + whole[21:])
    with pytest.raises(CorpusError, match="damaged"):
        contents(path)


def test_wrong_encoding_names_byte_line_and_encoding():
    data = "first\nzweite höhe\n".encode("latin-1")
    with pytest.raises(CorpusError, match=r"^a.csv: is not utf-8 at byte 14 \(line 2\); set `corpus.encoding`"):
        decoded(Path("a.csv"), data, "utf-8")
    assert decoded(Path("a.csv"), data, "latin-1") == "first\nzweite höhe\n"
    with pytest.raises(CorpusError, match=r"^a.csv, row 7, column `b`: is not ascii at byte 14;"):
        decoded(Path("a.csv"), data, "ascii", row=7, column="b")


@pytest.mark.parametrize("encoding", ["klingon", "base64"])
def test_unknown_encoding(encoding):
    with pytest.raises(SpecError, match=r"`corpus.encoding` must be"):
        decoded(Path("a.csv"), b"a", encoding)


@pytest.mark.parametrize(("what", "said"), [("", ""), ("the spec", "the spec ")])
def test_what_is_no_toml_is_refused(what: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(SpecError, match=f"^{said}{path} cannot be read: No such file"):
        read_toml(path, what)
    for content in (b"seed = ", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(SpecError, match=rf"^{said}a\.toml is not TOML: "):
            read_toml(path, what)
