"""From the arguments of a Python call to a spec, and to what the spec cannot say: data and functions."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from pydantic import BaseModel

from ksdp.api import given
from ksdp.api.given import outside
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.callables import function_mechanism
from ksdp.audit.opened import Opened
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import installed_parameters
from ksdp.audit.specs.design import as_rows
from ksdp.audit.specs.models import CorpusSpec, DecisionSpec, DesignSpec, Spec, meant, parse_spec
from ksdp.audit.specs.urls import MEMORY, was_url
from ksdp.storage.in_memory import (
    Recorded,
    arrow_or_same,
    corpus_in_memory,
    recorded_runs,
    recorded_tables,
    table_columns,
)

_SECTIONS = frozenset(Spec.model_fields) - {"mechanism", "seed", "title", "planted", "cluster"}
SETTINGS: dict[str, type[BaseModel]] = {"corpus": CorpusSpec, "design": DesignSpec, "decision": DecisionSpec}
KEYS = {
    key: section
    for section, model in SETTINGS.items()
    for key in model.model_fields
    if key not in ("path", "format")
}
"""Keys that need no section: those of the corpus, the design and the decision."""
_FEW = 5
_OWN = ("publishes", "version", "y", "ids")


def call_spec(data: Any, mechanism: Any, settings: Mapping[str, Any]) -> Opened:
    """Open what a call asks for.

    Parameters
    ----------
    data : matrix, table or texts; or the path of a spec, which then says everything
    mechanism : name, function, estimator or object
    settings : keys of a spec, of its sections, and of the mechanism

    Raises
    ------
    InputError
        If something is refused.
    """
    if isinstance(data, str | Path):
        from ksdp.flows.prepare import open_spec
        from ksdp.storage.readers.spec_files import read_spec_file

        if was_url(data):
            raise InputError(
                "data must be arrays, a table or texts, or the path of a spec; a corpus at a URL is named in a "
                "spec (`corpus.path`)."
            )
        if Path(data).suffix != ".toml":
            said = "give arrays, a table or texts, or the path of a spec (`ksdp init DATA` writes one)."
            raise InputError(f"{Path(data).name} is no spec (.toml): {said}")
        if mechanism is not None or settings:
            raise InputError(f"the spec {Path(data).name} says everything; other settings must be left out.")
        return open_spec(*read_spec_file(Path(data)))
    data = arrow_or_same(data)  # once: a stream is read but once
    if mechanism is None:
        raise InputError("`mechanism` must say what is audited: a name, a function or an estimator.")
    tables, rest = _sections(settings)
    own = {name: rest.pop(name) for name in _OWN if name in rest}
    columns = {name: own.get("ids") if name == "ids" else None for name in ("ids", "party", "group")}
    for name in ("party", "group"):
        if name in tables["corpus"] and not isinstance(tables["corpus"][name], str):
            columns[name] = tables["corpus"].pop(name)
    about = CorpusSpec.model_validate({**tables["corpus"], "path": MEMORY})
    corpus = corpus_in_memory(data, about, **columns)
    features = corpus.features if "y" in own else None
    if "y" in own:
        corpus = _with_labels(corpus, own["y"])
    objects: dict[str, Any] = {}
    _warn_of_left_out(data, corpus, tables["corpus"])
    dense = not sp.issparse(data)
    tables["statistics"] = _statistics(tables["statistics"], objects, dense)
    tables["corpus"]["path"] = MEMORY
    if isinstance(mechanism, Recorded):
        if rest:
            raise InputError(f"{_listed(rest)} is no setting; recorded runs have no parameters.")
        runs = recorded_runs(mechanism, corpus)
        tables = recorded_tables(runs, tables, tables["design"])
        objects[runs.name] = runs
    elif isinstance(mechanism, Mapping):
        tables["mechanism"] = dict(mechanism)
    elif isinstance(mechanism, str):
        parameters = _check_parameters(mechanism, rest)
        final = {"opens": "final"} if "opens" in parameters else {}  # as `ksdp init` writes
        tables["mechanism"] = {"name": mechanism} | final | rest
    else:
        if rest:
            hint = meant(next(iter(rest)), [*KEYS, *_OWN])
            raise InputError(
                f"{_listed(rest)} is no setting; {hint}a function or an object has its own parameters."
            )
        draft = parse_spec({**tables, "mechanism": {"name": "draft"}})
        made = _mechanism(mechanism, corpus, draft, own, sp.issparse(data), features)
        # What follows the contract has a name and a version that mean something.
        name = given.lent_name(str(made.name), own.get("version")) if made is mechanism else str(made.name)
        tables["mechanism"] = {"name": name}
        objects[name] = made
        if made is not mechanism and "families" not in tables["statistics"]:  # a function's arrays have any names
            tables["statistics"]["families"] = ()
    return Opened.of(parse_spec(tables), corpus, objects)


def described(model: type[Any]) -> dict[str, str]:
    """Return the words that stand under each key of a section, by key."""
    body = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(body, ast.ClassDef)
    words: dict[str, str] = {}
    last = None
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            words[last] = ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
            words[last] = " ".join(str(node.value.value).split())
            last = None
        else:
            last = None
    return words


def _check_parameters(mechanism: str, settings: Mapping[str, Any]) -> Collection[str]:
    """The parameters of an installed mechanism; refuse what is none and no setting: it was meant to be one."""
    if ":" in mechanism:
        return ()  # its folder is not importable yet; whoever makes it checks
    parameters = installed_parameters(mechanism)
    for name in settings:
        if name not in parameters:
            raise InputError(
                f"`{name}` is neither a setting nor a parameter of {mechanism}; "
                f"{meant(name, [*KEYS, *_OWN, *parameters])}its parameters are {', '.join(parameters)}."
            )
    return parameters


def _sections(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    tables: dict[str, Any] = {name: {} for name in ("corpus", "design", "decision", "statistics")}
    rest: dict[str, Any] = {}
    for key, value in settings.items():
        if key == "statistics" and not isinstance(value, Mapping):
            tables["statistics"]["names"] = tuple(value)
        elif key == "families":
            tables["statistics"]["families"] = tuple(value)
        elif key in _SECTIONS:
            if not isinstance(value, Mapping):
                raise InputError(f"`{key}` must be a mapping, the keys of that section of a spec; got {value!r}.")
            tables[key] = {**tables.get(key, {}), **value}
        elif key in ("seed", "title"):
            tables[key] = value
        elif key in KEYS and key != "documents":
            tables[KEYS[key]][key] = value
        elif key == "documents":
            if value is not None:  # all of them
                names = (value,) if isinstance(value, str) else value
                tables["design"]["documents"] = names if isinstance(names, int) else tuple(map(str, names))
        else:
            rest[key] = value
    return tables, rest


def _warn_of_left_out(data: Any, corpus: Corpus, said: Mapping[str, Any]) -> None:
    """Name the rows and the columns of the data that no verdict is about."""
    if rows := corpus.left_out:
        listed = ", ".join(map(repr, rows[:_FEW])) + (", ..." if len(rows) > _FEW else "")
        them = (
            "1 row without any number but 0 is left out and has"
            if len(rows) == 1
            else (f"{len(rows)} rows without any number but 0 are left out and have")
        )
        warnings.warn(f"{them} no verdict: {listed}.", stacklevel=outside())
    if corpus.taken and hasattr(data, "columns"):
        used = {*map(str, corpus.taken), *(str(said.get(name)) for name in ("id", "party", "group"))}
        if ignored := [str(name) for name in table_columns(data) if str(name) not in used]:
            warnings.warn(
                f"columns that do not hold numbers are left out: {', '.join(ignored)}. Encode them "
                "(`pandas.get_dummies(table, dtype=int)`), or name the columns to read (`columns=`).",
                stacklevel=outside(),
            )


def _statistics(table: Mapping[str, Any], objects: dict[str, Any], dense: bool) -> dict[str, Any]:
    """Statistics by name; objects and functions are lent under theirs."""
    names = []
    for thing in table.get("names", ()):
        if not isinstance(thing, str):
            made = given.lent_statistic(thing, dense)
            objects[made.name] = made
            thing = made.name
        names.append(thing)
    return {**table, **({"names": tuple(names)} if names else {})}


def _with_labels(corpus: Corpus, labels: Any) -> Corpus:
    """The corpus with one more column: who knows a document knows its label."""
    targets = np.asarray(labels)
    if len(targets) != len(corpus) + len(corpus.left_out):
        raise InputError(f"`y` must have one label a document ({len(corpus)}); got {len(targets)}.")
    if corpus.left_out:
        raise InputError("documents without features cannot have labels; leave them out of the data and of `y`.")
    numbers = targets.dtype.kind in "biuf"
    codes = (targets if numbers else np.unique(targets, return_inverse=True)[1]).astype(np.float64)
    matrix = sp.csr_array(sp.hstack([corpus.matrix, sp.csr_array(codes[:, None])], format="csr"))
    return replace(corpus, matrix=matrix)


def _mechanism(
    mechanism: Any, corpus: Corpus, draft: Spec, own: Mapping[str, Any], sparse: bool, features: int | None
) -> Any:
    if given.follows_contract(mechanism):
        return mechanism
    size = min(as_rows(draft.design.party_size, len(corpus)), len(corpus))
    rows = np.sort(generator(draft.seed, Purpose.SAMPLE, 1).choice(len(corpus), size, replace=False))
    trial = sp.csr_array(corpus.matrix[rows])
    if given.is_estimator(mechanism):
        name, call = (
            type(mechanism).__name__,
            given.estimator_call(mechanism, _published(own.get("publishes")), not sparse, features),
        )
    elif callable(mechanism):
        name, call = getattr(mechanism, "__name__", type(mechanism).__name__), given.called(mechanism, not sparse)
    else:
        raise InputError(
            f"`mechanism` must be a name, a function or an estimator; got {type(mechanism).__name__}."
        )
    return function_mechanism(given.lent_name(name, own.get("version")), call, trial, features)


def _published(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"`publishes` must be names of fitted attributes; got {names!r}.")
    return tuple(names)


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)
