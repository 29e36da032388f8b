"""`ksdp.advise`: the settings between gain and leak, as a table and a picture."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksdp.audit.errors import InputError
from ksdp.interface.figures import blank
from ksdp.interface.kept_folder import kept_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Advised(dict[str, Any]):
    """What a search over the levers found, as `ksdp advise --json` prints it; shown, it is words."""

    _kept: Any = None

    @property
    def settings(self) -> pd.DataFrame:
        """One row a setting that was tried.

        Its levers; `value`, what is learnt; `gain` over working alone; `leak`, the D that 95 % of the documents
        stay below; `above`, documents above the margin; `best`; and why it was `refused`, if it was.
        """
        import pandas as pd

        rows = []
        for place, one in enumerate(self["tried"]):
            leak, gain = one["leak"] or {}, one["gain"] or {}
            result = {"value": one["value"], "gain": gain.get("mean"), "leak": leak.get("high")}
            notes = {"above": leak.get("above"), "best": place == self["best"], "refused": one["refused"]}
            rows.append({**one["setting"], **result, **notes})
        return pd.DataFrame(rows)

    def plot(self) -> Figure:
        """Draw what each setting learns against what it gives away.

        Raises
        ------
        InputError
            If matplotlib is not installed.
        """
        table = self.settings.dropna(subset=["leak", "value"])
        figure, axes = blank()
        axes.scatter(table["leak"], table["value"], c="tab:gray", label="tried")
        best = table[table["best"]]
        axes.scatter(best["leak"], best["value"], c="tab:blue", s=80, label="recommended")
        for name, style in (("alone", ":"), ("public", "-."), ("exact", "--")):
            if self["baselines"][name] is not None:
                axes.axhline(self["baselines"][name], color="k", ls=style, lw=0.8, label=name)
        axes.axvline(self["margin"], color="tab:red", lw=0.8, label="margin")
        axes.set(xlabel="D that 95 % of the documents stay below", ylabel=self["baselines"]["measure"])
        axes.legend(frameon=False)
        return figure

    def __repr__(self) -> str:
        return "\n".join([*self["sentences"], *self["gain"]["sentences"]])

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in repr(self).splitlines())
        return f"<div>{lines}{self.settings.to_html(index=False)}</div>"


def advise(
    spec: str | Path,
    *,
    store: str | Path | None = None,
    write: str | Path | None = None,
    confirm: bool = False,
    progress: bool | None = None,
    **limits: Any,
) -> Advised:
    """Search the levers for a run that gains something and gives little away.

    Parameters
    ----------
    spec : path
        Of a spec. Levers change how rows are read, so the data are a file.
    store : path, optional
        Folder to keep the advice in; a temporary one by default, gone with the result.
    write : path, optional
        Where the recommended spec goes, in the folder of `spec`; `<spec>.advised.toml` by default.
    confirm : bool
        Audit the recommended spec whole, on runs that the search has not seen.
    progress : bool, optional
        As for `audit`.
    **limits
        `tried`, settings at most (16); `documents`, drawn for each (250); `runs`, in either arm (200); `quota`,
        the share of documents that may be above the margin (0.05); `levers`, names.

    Returns
    -------
    Advised

    Raises
    ------
    InputError
        If anything is refused.
    """
    from ksdp.flows.learning.advice import advise_spec
    from ksdp.flows.learning.advise import Limits
    from ksdp.flows.prepare import read_spec_file
    from ksdp.terminal import following

    if not isinstance(spec, str | Path):
        raise InputError("`spec` must be the path of a spec: levers change how rows are read, so data are a file.")
    known = set(Limits.__dataclass_fields__)
    if wrong := sorted(set(limits) - known):
        raise InputError(f"`{wrong[0]}` is not a limit of a search; the limits are {', '.join(sorted(known))}.")
    read, base = read_spec_file(Path(spec))
    folder, keep = kept_folder(store)
    to = Path(write) if write is not None else Path(spec).with_suffix(".advised.toml")
    with following(progress):
        advised = Advised(advise_spec(read, base, folder, Limits(**limits), write=to, confirm=confirm))
    advised._kept = keep
    return advised
