"""The files that a spec names, as paths of this machine: asked for once, where a corpus is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ksdp.audit.errors import SpecError
from ksdp.audit.levers_spec import LeversSpec
from ksdp.audit.spec import CorpusSpec
from ksdp.audit.urls import is_url

CORPUS_FILES = ("path", "labels", "vocabulary")
"""Keys of `[corpus]` that name a file."""
COLUMN_FILES = ("vocabulary",)
"""Those that say what the columns are, as those of the levers do."""
LEVER_FILES = ("terms", "reference", "units", "basis")
"""Keys of `[corpus.levers]` that name a file."""


def spec_path(base: Path, name: str) -> Path:
    """A path of the spec: relative to its folder, `$NAME` filled in from the environment.

    Raises
    ------
    SpecError
        For a URL: those that are read are copied here first (`storage.fetched`), and their copies are paths.
    """
    if is_url(name):
        raise SpecError("a URL may name the files of an audit's corpus; here it must be a file of this machine.")
    return base / os.path.expandvars(name)


def at_urls(spec: CorpusSpec) -> tuple[str, ...]:
    """The keys of `[corpus]` whose files are at URLs."""
    names = {name: getattr(spec, name) for name in CORPUS_FILES}
    names |= {f"levers.{name}": getattr(spec.levers, name) for name in LEVER_FILES}
    return tuple(name for name, value in names.items() if value is not None and is_url(value))


def with_files(
    spec: CorpusSpec, located: Callable[[str, str], Path], names: tuple[str, ...] = CORPUS_FILES
) -> CorpusSpec:
    """The same with paths in place of the names of its files and of its levers'.

    Parameters
    ----------
    located : of a name and the key that gives it, as messages have it
    names : keys of `[corpus]` whose files are asked for
    """

    def paths(section: CorpusSpec | LeversSpec, names: tuple[str, ...]) -> dict[str, str]:
        given = {name: getattr(section, name) for name in names}
        return {
            name: str(located(value, f"`corpus.{name}`")) for name, value in given.items() if value is not None
        }

    levers = spec.levers.model_copy(update=paths(spec.levers, LEVER_FILES))
    return spec.model_copy(update={"levers": levers, **paths(spec, names)})
