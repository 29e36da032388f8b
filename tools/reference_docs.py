"""Write the pages of `docs` that are generated, and its index, from the code and the pages."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools import mechanism_docs as words_of
from tools.key_docs import commands, file_keys
from tools.spec_docs import all_of, types_of

import ksdp
import ksdp.flows
from ksdp.api.call_spec import described
from ksdp.audit.registry import described_mechanisms, make_mechanism
from ksdp.audit.registry import statistics as every_statistic
from ksdp.audit.specs.models import StatisticsSpec
from ksdp.audit.statistic import Statistic, sentence_of
from ksdp.audit.statistics.linear.releases import LinearReleases
from ksdp.audit.statistics.plain import SENTENCES
from ksdp.extras.pem.flow import pem_flow
from ksdp.storage import findings

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "Tutorials": ("first-audit.md", "three-organisations.md", "notebook.md", "gallery.md"),
    "How-to guides": (
        "gain-and-levers.md",
        "noise-and-draw.md",
        "certificates.md",
        "reviewing.md",
        "screening.md",
        "protocol-run.md",
        "results.md",
        "python.md",
        "estimators.md",
        "scheduling.md",
        "ci.md",
        "prefect.md",
        "clusters.md",
        "installing.md",
        "upkeep.md",
        "pem.md",
    ),
    "Reference": (
        "commands.md",
        "spec.md",
        "file-keys.md",
        "api.md",
        "mechanisms.md",
        "statistics.md",
        "run-reference.md",
        "audit-and-run.md",
        "glossary.md",
    ),
    "Explanation": (
        "what-a-verdict-means.md",
        "verdicts-for-statisticians.md",
        "why-everything-leaks.md",
        "attacks.md",
        "comparison.md",
        "measured.md",
        "reproduced.md",
        "peers.md",
        "decisions.md",
    ),
}
FOR_WHOM = {
    "Tutorials": "Learn by doing: every command and cell runs as it is printed. Begin with the first.",
    "How-to guides": "Each page does one job, for people who know what they want.",
    "Reference": "Look things up: every command, key, mechanism and statistic, written from the code.",
    "Explanation": "Understand what the numbers mean, and why they are as they are.",
}
READERS = {
    "a data engineer": ("installing.md", "scheduling.md", "ci.md", "upkeep.md", "gain-and-levers.md"),
    "a privacy officer": (
        *("what-a-verdict-means.md", "reviewing.md", "screening.md", "noise-and-draw.md", "certificates.md"),
        "why-everything-leaks.md",
    ),
    "an auditor": (
        *("installing.md", "reviewing.md#check-what-somebody-hands-you", "gallery.md", "what-a-verdict-means.md"),
        *("results.md", "attacks.md", "verdicts-for-statisticians.md"),
    ),
    "a researcher": (
        "notebook.md",
        "python.md",
        "estimators.md",
        "results.md",
        "verdicts-for-statisticians.md",
        "peers.md",
    ),
    "a party of a run": ("installing.md", "three-organisations.md", "protocol-run.md", "upkeep.md"),
    "whoever chooses what parties compute": ("run-reference.md", "noise-and-draw.md", "audit-and-run.md"),
}
_FILES = "## Files of a store"
_CONTROLS = ("broken-power", "null", "planted-leak")
EXAMPLES = {
    "VerdictRow": "ksdp sql latest --to verdicts.csv",
    "StatisticTestRow": 'ksdp sql latest "select statistic, max(distance) from statistics group by 1"',
    "EffectRow": "ksdp sql latest 'select * from effects' --to effects.csv",
}
"""How to read each table of `results.md`."""
_SHARED = {
    "document": "Id of the document.",
    "statistic": "Name of the statistic.",
    "n_with": "Runs that held the document.",
    "distance": "Measured D.",
    "band_high": "Upper end of the band.",
    "tpr_at_fpr_001_low": "Its lower bound.",
}
"""Sentences of columns that several tables have, and whose rows say nothing more of them."""
TITLES = {
    "api.md": "Python, name by name",
    "commands.md": "Commands",
    "file-keys.md": "Keys of the other files",
    "mechanisms.md": "Mechanisms",
    "statistics.md": "Statistics",
    "decisions.md": "Decisions",
    "reviewing.md#check-what-somebody-hands-you": "Check what somebody hands you",
}
"""Titles of the pages that are written here, which may not be there yet."""
_OF_MECHANISMS = (
    ("linear-releases", "Hardt-Roth, DP-NMF, FedPower, PEM", LinearReleases.sentence),
    *((f"{kind}:ARRAY", "your own functions", said.format("ARRAY")) for kind, said in SENTENCES.items()),
)
"""Statistics that are no part of a family: name, whose releases they read, sentence."""
_FEATURES = 40
_MEASURED = "A measurement on the audited corpus, under the statistics tried; not a promise."
_REVEALED = "-revealed"
FLOWS = tuple(ksdp.flows.__all__)


def _section(name: str, thing: Any, module: str) -> list[str]:
    call = "" if inspect.isclass(thing) and issubclass(thing, Exception) else str(_signature(thing))
    said = re.split(r"\nRaises\n|\nReturns\n", inspect.getdoc(thing) or "")[0].rstrip()
    return [f"## `{module}.{name}`", "", "```python", f"{name}{call}", "```", "", "```text", said, "```", ""]


def _signature(thing: Any) -> Any:
    try:
        full = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    return full.replace(parameters=[one for name, one in full.parameters.items() if not name.startswith("_")])


def api() -> str:
    """`docs/api.md`."""
    from ksdp.api.calls import Advised, audit
    from ksdp.audit.mechanisms.released import ReleaseFinding
    from ksdp.audit.results.summary import Summary

    lines = [
        "# Python, name by name",
        "",
        "*For programmers who know what they want to call. Each name has its signature and what it does; how the",
        "names work together is shown in [ksdp in Python](python.md).*",
        "",
        "Written by `tools/reference_docs.py` from the code.",
        "",
    ]
    for name in ksdp.__all__:
        if name != "__version__":
            thing: Any = audit if name == "audit" else getattr(ksdp, name)
            lines += _section(name, thing, "ksdp")
            is_dataclass = isinstance(thing, type) and hasattr(thing, "__dataclass_fields__")
            fields = described(thing) if is_dataclass else {}
            lines += [f"- `.{field}`: {words}" for field, words in fields.items() if words and field[0] != "_"]
            for method, what in vars(thing).items() if inspect.isclass(thing) else ():
                said = inspect.getdoc(what.fget if isinstance(what, property) else what)
                if not method.startswith("_") and (callable(what) or isinstance(what, property)) and said:
                    taken = list(inspect.signature(what).parameters.values())[1:] if callable(what) else []
                    names = ", ".join(str(one.replace(annotation=one.empty)) for one in taken)
                    call = f"({names})" if callable(what) else ""
                    lines += [f"- `.{method}{call}`: {said.splitlines()[0]}"]
            lines += [""] if inspect.isclass(thing) else []
    lines += ["# What calls return", ""]
    settings = " ".join((inspect.getdoc(vars(Advised)["settings"]) or "").split())
    lines += ["`ksdp.advise` returns a mapping that prints as sentences.", "", f"- `.settings`: {settings}", ""]
    lines += ["`ksdp.plan` returns a mapping that prints as sentences. Its keys, among others:", ""]
    lines += [f'- `["{key}"]`: {said}' for key, said in words_of.FORECAST.items()]
    for what, kind in (("`found.summary` has", Summary), ("`ksdp.bound_release` returns", ReleaseFinding)):
        lines += ["", f"{what}, among others:", ""]
        lines += [f"- `.{field}`: {said}" for field, said in all_of(kind, described).items() if said]
    lines += ["", "# Prefect flows", "", "[Prefect](prefect.md) shows how to deploy them.", ""]
    flows = {f"ksdp.flows.{name}": getattr(ksdp.flows, name).fn for name in FLOWS}
    for name, flow in (flows | {"ksdp.extras.pem.flow.pem_flow": pem_flow.fn}).items():
        said = (inspect.getdoc(flow) or "").splitlines()[0]
        lines.append(f"- `{name}({', '.join(inspect.signature(flow).parameters)})`: {said}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def results() -> str:
    """`docs/results.md`: after what is written by hand, the files of a store and each column of its tables."""
    from ksdp.storage import store

    by_hand = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").partition(_FILES)[0].rstrip()
    lines = [by_hand, "", _FILES, "", "This list and the tables below are generated from the code.", ""]
    folders = (inspect.getdoc(store) or "").partition("::\n\n")[2].partition("\n\nEverything")[0]
    lines += ["```text", folders, "```", ""]
    for name, command in EXAMPLES.items():
        row = getattr(findings, name)
        first, _, rest = (inspect.getdoc(row) or "").partition("\n")
        file, _, said = first.partition(": ")
        lines += [
            f"## `{file[1:].partition('.')[0]}`",
            "",
            f"A row is {said} {' '.join(rest.split())}".rstrip(),
            "",
        ]
        lines += ["```sh", command, "```", ""]
        words, kinds = all_of(row, described), all_of(row, types_of)
        for column, said in words.items():
            lines.append(f"- `{column}` ({kinds[column]}): {said or _SHARED[column]}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _default(value: Any) -> str:
    if isinstance(value, dict):
        return "its defaults"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else f"{value or 0}"


def _explained(shown: Mapping[str, str], own: Mapping[str, str], shared: Mapping[str, str]) -> list[str]:
    """A line for each name that is a mechanism's own, and one for those that `shared` explains."""
    lines = [f"- {written}: {own[name]}" for name, written in shown.items() if name in own]
    also = {name: written for name, written in shown.items() if name not in own}
    assert set(also) <= set(shared), "say what these are in tools/mechanism_docs.py"
    return [*lines, *([f"- {'Also ' if lines else ''}{', '.join(also.values())}."] if also else [])]


def _by_promise(every: list[dict[str, Any]]) -> list[str]:
    """A line for each kind of promise, with the mechanisms that make it with their defaults."""
    kinds: dict[str, list[str]] = {
        "An advantage that no attack exceeds, and (epsilon, delta)": [],
        "(epsilon, delta)": [],
        "An (epsilon, delta) that is unsound": [],
        "Nothing that is proved": [],
    }
    bounded, private, unsound, rest = kinds.values()
    for one in every:
        promise = one["guarantee"]
        is_private = promise["kind"] == "(epsilon, delta)"
        where = rest if not is_private else private if promise["sound"] else unsound
        (where if promise["advantage"] is None else bounded).append(f"[`{one['name']}`](#{one['name']})")
    assert all(kinds.values()), "a kind of promise that no mechanism makes"
    return [f"- {kind}: {', '.join(names)}." for kind, names in kinds.items()]


def mechanisms() -> str:
    """`docs/mechanisms.md`."""
    lines = [
        "# Mechanisms",
        "",
        "*For engineers and researchers who choose what to audit. You look up a mechanism: what it computes, its",
        "parameters, what a run releases, and what is promised. You need the words of the",
        "[glossary](glossary.md); `ksdp mechanisms NAME` prints defaults and promise.*",
        "",
        "Written by `tools/reference_docs.py` from the code. Each parameter stands with its default in brackets,",
        "for which the promise holds. What several mechanisms have is explained once, before the first. The final",
        "output is in bold. Mechanisms that check audits themselves come last.",
        "",
        "A promise is of one of two kinds. *(epsilon, delta)* is differential privacy. **KSDP** is",
        "distributional privacy, which papers claim and nobody has proved: an audit measures how well one",
        "document hides among others. A promise is **unsound** if it is known to be wrong.",
        "",
        "With its defaults, a mechanism promises:",
        "",
        *_by_promise([one for one in described_mechanisms() if one["name"] not in _CONTROLS]),
        "",
        "## Parameters of several mechanisms",
        "",
        "Specs that `ksdp init` writes, and calls in Python, set `opens` to `final`.",
        "",
        *(f"- `{name}`: {said}" for name, said in words_of.SHARED.items()),
        "",
        "## Arrays of several mechanisms",
        "",
        *(f"- `{name}`: {said}" for name, said in words_of.ARRAYS.items()),
    ]
    for one in sorted(described_mechanisms(), key=lambda one: one["name"] in _CONTROLS):
        promise = one["guarantee"]
        numbers = [f"{key} {promise[key]:.3g}" for key in ("epsilon", "delta") if promise.get(key) is not None]
        words = ", ".join([promise["kind"], *numbers, *([] if promise["sound"] else ["**unsound**"])])
        releases = make_mechanism(one["name"], {}).releases(_FEATURES)
        arrays = {r.name: f"{'**' * r.final}`{r.name}`{'**' * r.final}" for r in releases}
        values = {each: f"`{each}` ({_default(value)})" for each, value in one["parameters"].items()}
        module, _, name = one["object"].partition(":")
        what = (inspect.getdoc(getattr(importlib.import_module(module), name)) or "").partition("\n\n")[0]
        lines += ["", f"## `{one['name']}`", "", re.sub(r":math:`(.*?)`", r"`\1`", " ".join(what.split()))]
        lines += [f"Source: {promise['source']}."] if promise.get("source") else []
        lines += [
            "",
            "Parameters:",
            "",
            *_explained(values, words_of.OWN.get(one["name"], {}), words_of.SHARED),
            "",
        ]
        claims = {
            "KSDP": f"It promises nothing that is proved; claimed is {words}.",
            "none": "It promises nothing.",
        }
        own = words_of.OWN_ARRAYS.get(one["name"], {})
        lines += [
            "Releases:",
            "",
            *_explained(arrays, own, words_of.ARRAYS),
            "",
            claims.get(promise["kind"], f"It promises {words}."),
        ]
        kept = () if promise["kind"] == "KSDP" else (("Protected", "unit"), ("Whom one must trust", "trust"))
        lines += [f"{said}: {promise[key]}." for said, key in kept if promise[key]]
        lines += [promise["notes"]] if promise["notes"] and promise["notes"] != _MEASURED else []
    return "\n".join(lines) + "\n"


def statistics() -> str:
    """`docs/statistics.md`."""
    families: dict[str, list[Statistic]] = {}
    for one in every_statistic().values():
        families.setdefault(one.family, []).append(one)
    lines = [
        "# Statistics",
        "",
        "*For reviewers who ask what an adversary looked at. You look up a statistic by its name: each has one",
        "sentence, and [what each attack does](attacks.md) explains them in order of strength. You need the words",
        "of the [glossary](glossary.md).*",
        "",
        "Written by `tools/reference_docs.py` from the code. A statistic takes what a run releases and one",
        "document, and gives a number. Headings are *families*, which a spec may name (`statistics.families`).",
        "",
        "**What is tested by default.** An audit tests the families",
        f"{', '.join(f'`{family}`' for family in StatisticsSpec().families)}, each as far as releases allow it,",
        "and `simulated`, unless the equations of the linear attack tell more. An audit of a function of your own",
        "tests the last group, `simulated`, and the [statistics that you",
        "write](python.md#a-mechanism-of-your-own). The table `statistics` of an audit has those that it tested.",
        "",
        "**Words.** *Announced* means released. *Best weighed* means a matched filter: the weighted sum of the",
        "numbers that tells runs with the document from those without it best, given the distribution of the",
        "others. *Strengths* are the singular values. The *start* is what the iteration begins with. Formulas",
        "stand in the docstrings of `src/ksdp/audit/statistics/`.",
    ]
    for family, members in sorted(families.items()):
        names = {one.name for one in members}
        lines += ["", f"## `{family}`", ""]
        for one in members:
            if one.name.removesuffix(_REVEALED) in names - {one.name}:
                continue  # the next sentence says so of both
            both = (
                f", `{one.name}{_REVEALED}` (with the announced strengths)"
                if one.name + _REVEALED in names
                else ""
            )
            lines.append(f"- `{one.name}`{both}: {sentence_of(one)}")
    lines += ["", "## Of single mechanisms, and of functions", ""]
    lines += [f"- `{name}` ({whose}): {said}" for name, whose, said in _OF_MECHANISMS]
    return "\n".join(lines) + "\n"


def decisions() -> str:
    """`docs/decisions.md`: every decision by its title."""
    lines = [
        "# Decisions",
        "",
        "*For maintainers, and for people who ask why things are as they are. Each page says what the question",
        "was, what was decided, what follows from it, and what was rejected. It needs knowledge of the code.*",
        "",
    ]
    for page in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        number, _, title = page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ").partition(". ")
        lines.append(f"- [{number}. {title}](decisions/{page.name})")
    return "\n".join(lines) + "\n"


def _title(page: str) -> str:
    path = ROOT / "docs" / page
    return TITLES.get(page) or path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def _link(page: str) -> str:
    return f"[{_title(page)}]({page})"


def index() -> str:
    """`docs/README.md`: every page of the documentation, by what it is for."""
    lines = [
        "# Documentation",
        "",
        "ksdp measures, document by document, what a joint computation gives away, before it is run.",
        "",
        "New here? Read [what a verdict means](what-a-verdict-means.md) (five minutes), then type [your first",
        "audit](first-audit.md). The [glossary](glossary.md) explains each word. After that, read the pages of",
        "your row. A party of a run, or an auditor who was handed something, may begin with the row:",
        "",
        "| you are | read, in this order |",
        "|---|---|",
        *(f"| {who} | {', '.join(map(_link, pages))} |" for who, pages in READERS.items()),
        "",
    ]
    for heading, pages in PAGES.items():
        lines += [f"## {heading}", "", FOR_WHOM[heading], ""]
        lines += [*(f"- {_link(page)}" for page in pages), ""]
    lines += ["Federations of Flower and NVFlare are audited without changing them: see `examples/flower/` and"]
    lines += ["`examples/nvflare/`. With `examples/gate/`, a site takes part in them only with a clearance."]
    lines += ["`SECURITY.md` says who is trusted with what."]
    return "\n".join(lines).rstrip() + "\n"


def llms() -> str:
    """`docs/llms.txt`: the pages and whom they are for, as language models read them (llmstxt.org)."""
    lines = [
        "# ksdp",
        "",
        "> Measures, document by document, what a joint computation gives away, before it is run.",
    ]
    for heading, pages in PAGES.items():
        lines += ["", f"## {heading}", ""]
        for page in pages:
            text = (ROOT / "docs" / page).read_text(encoding="utf-8")
            whom = re.search(r"^\*(For .+?)\*", text, re.MULTILINE | re.DOTALL)
            said = " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", whom[1]).split()) if whom else ""
            lines.append(f"- [{_title(page)}]({page.removesuffix('.md')}.html): {said}")
    return "\n".join(lines) + "\n"


WRITTEN = {
    "api.md": api,
    "commands.md": commands,
    "file-keys.md": file_keys,
    "mechanisms.md": mechanisms,
    "statistics.md": statistics,
    "decisions.md": decisions,
    "results.md": results,
    "README.md": index,
    "llms.txt": llms,
}


if __name__ == "__main__":
    for name, page in WRITTEN.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
