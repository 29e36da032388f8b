"""Specs, and the files that they name, as paths of this machine; those at URLs are copied, and removed later."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from ksdp.audit.errors import CorpusAway, CorpusError, SpecError, Unreachable
from ksdp.audit.specs.models import CorpusSpec, LeversSpec, Spec, parse_spec
from ksdp.audit.specs.own_names import names_own_code
from ksdp.audit.specs.urls import check_url, is_url
from ksdp.storage.files import largest_input, read_toml
from ksdp.storage.remote import RemotePlace

CORPUS_FILES = ("path", "labels", "vocabulary")
"""Keys of `[corpus]` that name a file."""
COLUMN_FILES = ("vocabulary",)
"""Keys of `[corpus]` that name a file of columns; those of the levers do, too."""
LEVER_FILES = ("terms", "reference", "units", "basis")
"""Keys of `[corpus.levers]` that name a file."""


def read_spec_file(path: Path, *, own_code: bool = True) -> tuple[Spec, Path]:
    """Read a TOML spec: (spec, folder that its paths are relative to)."""
    spec, folder = parse_spec(read_toml(path, "the spec")), path.resolve().parent
    if own_code and names_own_code(spec) and str(folder) not in sys.path:
        sys.path.append(str(folder))
    return spec, folder


def spec_path(base: Path, name: str) -> Path:
    """A path of the spec: relative to its folder, `$NAME` filled in from the environment."""
    if is_url(name):
        raise SpecError("a URL may name the files of an audit's corpus; here it must be a file of this machine.")
    return base / os.path.expandvars(name)


def at_urls(spec: CorpusSpec) -> tuple[str, ...]:
    """The keys of `[corpus]` whose files are at URLs."""
    names = {name: getattr(spec, name) for name in CORPUS_FILES}
    names |= {f"levers.{name}": getattr(spec.levers, name) for name in LEVER_FILES}
    return tuple(name for name, value in names.items() if value is not None and is_url(value))


def _with_files(
    spec: CorpusSpec, located: Callable[[str, str], Path], names: tuple[str, ...] = CORPUS_FILES
) -> CorpusSpec:
    def paths(section: CorpusSpec | LeversSpec, names: tuple[str, ...]) -> dict[str, str]:
        given = {name: getattr(section, name) for name in names}
        return {
            name: str(located(value, f"`corpus.{name}`")) for name, value in given.items() if value is not None
        }

    levers = spec.levers.model_copy(update=paths(spec.levers, LEVER_FILES))
    return spec.model_copy(update={"levers": levers, **paths(spec, names)})


class Copy:
    """A file of a URL on this machine, as long as somebody holds this object, or until the process ends."""

    def __init__(self, url: str) -> None:
        folder = tempfile.mkdtemp(prefix="ksdp-corpus-")  # mode 0700
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / (re.sub(r"[^\w.-]", "_", name_at(url)).lstrip(".") or "file")
        """With the name that it has there, as formats go by names."""
        _copy(RemotePlace(url), _said(url), self.path)


def fetched(
    spec: CorpusSpec, base: Path, names: tuple[str, ...] = CORPUS_FILES
) -> tuple[CorpusSpec, tuple[Copy, ...]]:
    """The same with paths of files: from `base`, or of copies of what is at URLs, there while they are held."""
    copies: list[Copy] = []

    def located(name: str, key: str) -> Path:
        return _copied(os.path.expandvars(name), key, copies) if is_url(name) else spec_path(base, name)

    return _with_files(spec, located, names), tuple(copies)


def _copied(url: str, key: str, copies: list[Copy]) -> Path:
    try:
        scheme = check_url(url, key)  # again: the environment has filled in some of it
    except ValueError as error:
        raise SpecError(str(error)) from None
    if scheme == "file":
        if not url.startswith("file:///"):
            raise SpecError(f"{key}: a file's URL must be of this machine (file:///folder/file).")
        return Path(_unquoted(url.removeprefix("file://")))
    copies.append(Copy(url))
    return copies[-1].path


def _said(url: str) -> str:
    return _unquoted(url.partition("?")[0])


def name_at(url: str) -> str:
    """The name of the file at a URL."""
    return _said(url).rpartition("/")[2]


def _unquoted(text: str) -> str:
    return re.sub(rb"%([0-9a-fA-F]{2})", lambda code: bytes.fromhex(code[1].decode()), text.encode()).decode(
        "utf-8", "replace"
    )


def _copy(there: RemotePlace, said: str, here: Path) -> None:
    try:
        before = there.info()
        if before["size"] > largest_input():
            raise CorpusError(f"{said}: has more than {largest_input()} bytes (KSDP_LARGEST_INPUT).")
        there.fetch(here)
        if there.info() != before or here.stat().st_size != before["size"]:
            raise CorpusAway(f"{said}: is changed while it is read; read it when it is finished.")
    except FileNotFoundError:
        raise CorpusError(f"{said}: there is no such file.") from None
    except Unreachable as error:
        raise CorpusAway(str(error)) from None
