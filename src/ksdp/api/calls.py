"""The calls of `ksdp`: `audit`, `plan`, `bound_release`, `clear`, `advise`, `compare`, `load`, `mechanism`."""

from __future__ import annotations

import functools
import html
import inspect
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_type_hints

import numpy as np

from ksdp.api.call_spec import KEYS, SETTINGS, call_spec, described
from ksdp.api.given import version_of
from ksdp.api.results import Audit, Forecast
from ksdp.audit.errors import InputError
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.urls import was_url

if TYPE_CHECKING:
    import pandas as pd

    from ksdp.audit.contract import Mechanism
    from ksdp.audit.mechanisms.released import ReleaseFinding

P = ParamSpec("P")
R = TypeVar("R")


def kept_folder(store: str | Path | None) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    """The store's folder, and what the result holds on to where it is a temporary one."""
    if store is not None:
        if was_url(store):
            raise InputError("`store` must be a folder of this machine; a spec's `cluster.blocks` may be a URL.")
        return Path(str(store)), None
    keep = tempfile.TemporaryDirectory(prefix="ksdp-")
    return Path(keep.name) / "store", keep


def _stoppable(call: Callable[P, R]) -> Callable[P, R]:
    """The same call, which Ctrl-C ends with how it goes on."""

    @functools.wraps(call)
    def stoppable(*given: P.args, **named: P.kwargs) -> R:
        try:
            return call(*given, **named)
        except KeyboardInterrupt as stopped:
            then = "goes on from what is stored" if named.get("store") else "begins anew without a `store=`"
            line = f"Stopped. The same call {then}."
            stopped.args, stopped.__dict__["_render_traceback_"] = (line,), lambda: [line]  # what a notebook shows
            raise

    return stoppable


@_stoppable
def audit(
    data: Any,
    mechanism: Any = None,
    *,
    store: str | Path | None = None,
    workers: int | None = None,
    verbose: int | None = None,
    appetite: str | Path | Mapping[str, Any] | None = None,
    **settings: Any,
) -> Audit:
    """Audit every document of some data: what does a mechanism give away about it?

    Everything happens in this process; no server is started. The same data, settings and seed give the same table
    as the command `ksdp audit`, to the last bit.

    Parameters
    ----------
    data : 2-D array, sparse matrix, DataFrame, Arrow table or stream, list of texts; or the path of a spec
        A matrix is taken as it is. A table says `text=`, or `columns=`; and `id=`, `party=`, `group=`.
    mechanism : str, callable, estimator or object
        A name (`ksdp mechanisms` lists them), with its parameters among the settings. A function `(X, rng) ->
        arrays`: a mapping of names to arrays, an array, or several; X is dense where the data are. A scikit-learn
        estimator: a copy is fitted in every run, and `publishes=` names the fitted attributes that would be made
        public; `y=` are labels. Or an object that follows `ksdp.audit.contract.Mechanism`.
    store : path, optional
        Folder to keep everything in, as that of the command; a temporary one by default, gone with the result.
    workers : int, optional
        Worker processes, for mechanisms that have a name. A script needs `if __name__ == "__main__":` then.
    verbose : int, optional
        1 shows how far it is, on standard error or as a bar under the cell, 0 does not; by default in notebooks
        and on terminals.
    appetite : path or mapping, optional
        A risk appetite that the audit is held to (`docs/ci.md`): `found.appetite` lists every criterion.
    **settings
        Keys of a spec (`docs/spec.md`): those of the corpus, the design and the decision as they are
        (`party_size=0.1, with_runs=200, margin=0.2, seed=7`), whole sections as mappings (`parties={"honest":
        50}`, `declared={"prior": 0.01}`), `families=` and `statistics=` (names, or functions `(observables,
        documents) -> numbers`), and the mechanism's parameters (`rank=7`). `version=` says that a function is the
        same as in an earlier call with this version, so that stored runs may be used again; without it every call
        computes anew.

    Returns
    -------
    Audit

    Raises
    ------
    InputError
        If anything is refused, before work starts.

    Examples
    --------
    >>> import numpy as np, ksdp
    >>> X = np.random.default_rng(0).poisson(1.0, (40, 6)).astype(float)
    >>> found = ksdp.audit(X, lambda X, rng: X.mean(axis=0), party_size=0.25, with_runs=20, seed=1)
    >>> len(found.verdicts)
    40
    """
    from ksdp.flows.audits.place import Place
    from ksdp.storage.reviews.appetites import given_appetite
    from ksdp.terminal import following

    if store is None and mechanism is not None:  # nothing is stored before: the same function, the same id
        settings = {"version": version_of(mechanism, settings.get("publishes"))} | settings
    wanted = call_spec(data, mechanism, settings)
    if workers is not None and workers > 1 and wanted.own:
        raise InputError(
            "`workers` need names: functions and objects of a program stay in its process. "
            "Put them into a module and name it: mechanism='my_module:my_mechanism'."
        )
    held_to = None if appetite is None else given_appetite(appetite)
    folder, keep = kept_folder(store)
    with following(verbose):
        from ksdp.flows.audits.run import run_audit

        summary: Summary = run_audit(wanted, folder, Place(workers, here=True), held_to)
    return Audit(Path(summary.store), summary, keep, wanted.own, type(data))


def signature_of_calls() -> inspect.Signature:
    """The signature of `ksdp.audit`, with every setting and its default."""
    *named, others = inspect.signature(audit).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    types = {section: get_type_hints(model) for section, model in SETTINGS.items()}
    settings = [
        inspect.Parameter(key, keyword, default=_default(key), annotation=types[section][key])
        for key, section in KEYS.items()
    ]
    return inspect.Signature([*named, *settings, others], return_annotation=audit.__annotations__["return"])


def settings_words() -> str:
    """Every setting of the corpus, the design and the decision, as a numpydoc section."""
    words = {section: described(model) for section, model in SETTINGS.items()}
    lines = [f"{key} : default {_default(key)!r}\n    {words[section][key]}" for key, section in KEYS.items()]
    return "\n".join(("Settings", "--------", *lines))


def _default(key: str) -> Any:
    return SETTINGS[KEYS[key]].model_fields[key].get_default()


def mechanism(name: str, **parameters: Any) -> Mechanism:
    """A mechanism by its name: to run it here, or to read what it releases and promises.

    Parameters
    ----------
    name : str
        As `ksdp mechanisms` lists it, or `module:object`.
    **parameters
        The mechanism's own.

    Returns
    -------
    Mechanism
        Its `run(database, rng)` gives what one run among parties releases, noise included; `releases(features)`
        lists the arrays, with their shapes and noise (`ksdp.audit.contract`).

    Raises
    ------
    SpecError
        If there is no such mechanism, or a parameter it does not have.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, ksdp
    >>> from ksdp.audit.contract import Database
    >>> parties = tuple(sp.csr_array(np.eye(4)) for _ in range(2))
    >>> ksdp.mechanism("pd-svd", rank=2).run(Database(parties), np.random.default_rng(0))["V"].shape
    (2, 4)
    """
    from ksdp.audit.registry import make_mechanism

    return make_mechanism(name, parameters)


def plan(data: Any, mechanism: Any = None, **settings: Any) -> Forecast:
    """Forecast an audit before spending: runs, hours, bytes, what it can detect and what it can call clear.

    Parameters
    ----------
    data, mechanism, **settings
        As for `audit`.

    Raises
    ------
    InputError
        If anything is refused.
    """
    from ksdp.flows.audits.forecast import forecast

    return Forecast(forecast(call_spec(data, mechanism, settings)))


@_stoppable
def clear(
    data: Any,
    mechanism: Any = None,
    *,
    clearance: str | Path,
    key: str | Path,
    who: str,
    store: str | Path,
    **settings: Any,
) -> dict[str, Any]:
    """Audit, audit the clear documents by themselves until all of them hold, and sign the list of these.

    Parameters
    ----------
    data, mechanism, store, **settings
        As for `audit`; and `days`, after which the clearance expires (90), and `rounds`, the most audits of the
        list (8).
    clearance : path
        Where the signed list of documents goes.
    key : path
        Private key of the person who decides, without a passphrase (`ksdp keys`).
    who : str
        Name of that person; it stands in the clearance.

    Returns
    -------
    dict
        `outcome`, `reason`, `report` and the rounds, as `ksdp clear --json` prints them.

    Raises
    ------
    InputError
        If anything is refused, before work starts; if no document is clear.
    """
    from ksdp.flows.audits.place import HERE
    from ksdp.flows.screening.clear import ClearRules, Signing, audit_and_clear
    from ksdp.storage.keys import load_private
    from ksdp.terminal import following

    days, rounds = int(settings.pop("days", 90)), int(settings.pop("rounds", 8))
    wanted, now = call_spec(data, mechanism, settings), datetime.now(UTC)
    signing = Signing(Path(clearance), load_private(Path(key)), who, now, now + timedelta(days=days))
    with following(None):
        done = audit_and_clear(wanted, Path(store), signing, ClearRules(rounds), HERE)
    return done.to_json()


def bound_release(release: Any, members: Any, held_out: Any, *, delta: float = 0.0) -> ReleaseFinding:
    """Compare documents that were in one release, which exists already, with documents that were held out.

    Nothing is run. `bound.epsilon_low` (replace-one, 95 % confidence) is of all documents together and of none by
    itself, if chance alone decided who was in. `bound` is None where a control failed: the files differ.

    Parameters
    ----------
    release : array, mapping of names (`V`, `T`, `mean`, `sigma`) to arrays, or None
        Vectors as rows. None: `members` and `held_out` are scores of a model, one number a document.
    members, held_out : 2-D array, sparse matrix or table
        One row a document, with the columns of the release; at least 40 documents each, none in both.
    delta : float
        At which epsilon is bounded.

    Examples
    --------
    >>> import numpy as np, ksdp
    >>> X = np.random.default_rng(0).normal(size=(200, 50))
    >>> V = np.linalg.svd(X[:100])[2][:20]  # published, made of the first hundred
    >>> ksdp.bound_release(V, X[:100], X[100:]).bound.epsilon_low > 1
    True
    """
    from ksdp.flows.audits.released import release_in_memory

    return release_in_memory(release, members, held_out, delta)


def compare(*audits: Audit) -> pd.DataFrame:
    """Set audits side by side: one row an audit, as `cv_results_` of scikit-learn.

    Parameters
    ----------
    *audits : Audit
        Finished ones, of whatever stores.

    Returns
    -------
    DataFrame
        By audit: the keys of the specs that differ; how many documents have each verdict, how many leak at all;
        median and largest D; runs and seconds; `valid`, without which no verdict may be used.
    """
    import pandas as pd

    if not audits:
        raise InputError("`audits` must name at least one audit.")
    specs = pd.json_normalize([a.summary.spec.model_dump(mode="json") for a in audits])
    written = specs.map(str)
    rows = [a.summary.row | {"median_D": float(np.nanmedian(a.arrow()["distance"]))} for a in audits]
    table = pd.concat([specs.loc[:, written.nunique() > 1], pd.DataFrame(rows)], axis=1)
    return table.set_index(pd.Index([a.id for a in audits], name="audit"))


def load(store: str | Path, audit: str = "latest") -> Audit:
    """A finished audit of a store, made by Python or by the command.

    Parameters
    ----------
    audit : str
        Its id, the beginning of it, or `latest`.

    Raises
    ------
    StoreError
        If there is none.
    """
    from ksdp.storage.audits.history import opened_audit, read_summary

    opened, identifier = opened_audit(Path(store), audit)
    return Audit(opened.root, read_summary(opened.audit(identifier)))


class Advised(dict[str, Any]):
    """Advice of a search over the levers, as `ksdp advise --json` prints it. It is shown in words."""

    _kept: Any = None

    @property
    def settings(self) -> pd.DataFrame:
        """Return one row for each setting that was tried: its levers, and what came out.

        `gain` is over working alone, at least `gain_low`; `value` is how much is learnt. `proved` bounds every
        attack. 95 % of sampled documents stay below the D `leak`; `above` are those above the margin. One row is
        `best`; `refused` says why one was left out.
        """
        import pandas as pd

        rows = []
        for place, trial in enumerate(self["tried"]):
            leak, gain = trial["leak"] or {}, trial["gain"] or {}
            gained = {"value": trial["value"], "gain": gain.get("mean"), "gain_low": gain.get("low")}
            result = {**gained, "proved": trial["promised"], "leak": leak.get("high")}
            notes = {"above": leak.get("above"), "best": place == self["best"], "refused": trial["refused"]}
            rows.append({**trial["setting"], **result, **notes})
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return "\n".join([*self["sentences"], *self["gain"]["sentences"]])

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in repr(self).splitlines())
        return f"<div>{lines}{self.settings.to_html(index=False)}</div>"


@_stoppable
def advise(
    spec: str | Path,
    *,
    store: str | Path | None = None,
    write: str | Path | None = None,
    quota: float = 1 / 3,
    verbose: int | None = None,
) -> Advised:
    """Find the setting that is within the margin and gains most, audit it, and write it as a spec to sign.

    Parameters
    ----------
    spec : path
        Of a spec. Levers change how rows are read, so the data are a file.
    store : path, optional
        Folder to keep the advice in; a temporary one by default, gone with the result.
    write : path, optional
        Where the recommended spec goes, in the folder of `spec`; `<spec>.advised.toml` by default.
    quota : float
        In (0, 1): the largest share of documents that may stay out of the run.
    verbose : int, optional
        As for `audit`.

    Returns
    -------
    Advised

    Raises
    ------
    InputError
        If anything is refused.
    """
    from ksdp.flows.learning import Limits, advise_spec
    from ksdp.storage.readers.spec_files import read_spec_file
    from ksdp.terminal import following

    if not isinstance(spec, str | Path):
        raise InputError("`spec` must be the path of a spec: levers change how rows are read, so data are a file.")
    read, base = read_spec_file(Path(spec))
    folder, keep = kept_folder(store)
    to = Path(write) if write is not None else Path(spec).with_suffix(".advised.toml")
    with following(verbose):
        advised = Advised(advise_spec(read, base, folder, Limits(quota), write=to))
    advised._kept = keep
    return advised
