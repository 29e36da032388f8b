"""Run one benchmark by name, or all.

::

    python -m benchmarks                     # all that takes no hour
    python -m benchmarks plain               # beside SciPy's tests, a plain loop and joblib; ten minutes
    python -m benchmarks plain-every         # the loop and every mail of enron-mail6; some minutes
    python -m benchmarks kernels             # each beside SciPy's; seconds
    python -m benchmarks speed --whole       # whole audits beside an earlier commit; an hour
    python -m benchmarks bounds              # whole commands beside it, and what is asked; --quick: minutes
    python -m benchmarks advantage           # hours, so only by name
    python -m benchmarks signed LIST SPEC    # attack what was signed: a clearance, or a file of ids
    python -m benchmarks signed-lists        # sign, audit again and attack lists of everyday data
    python -m benchmarks scale               # time and memory over documents, up to --scales 2000000
    python -m benchmarks.attacks             # kills, flips and lies at random; --minutes 60
    python -m benchmarks.pem                 # PEM with sparse vectors, and what a run costs
    python -m benchmarks.figure_3 --movies 17711  # figure 3 in the shape of Netflix; ten minutes
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks import (
    ROOT,
    advantage,
    bounds,
    curves,
    data_folder,
    drawn,
    figure_3,
    forecasts,
    frontier,
    hidden,
    hidden_leak,
    iterations,
    kernels,
    normed_sum,
    peers,
    peers_run,
    pem_hosts,
    plain,
    power,
    protocol_run,
    protocols_table,
    ratings,
    scale,
    secure_sum,
    share_costs,
    signed,
    signed_lists,
    single_runs,
    speed,
    verdicts,
)

SPEC = ROOT / "examples/specs/enron-mail6-svd.toml"


def _specs(chosen: argparse.Namespace) -> tuple[str, ...]:
    """The one that is named, else all."""
    return () if chosen.spec is None else (chosen.spec.stem,)


Benchmark = Callable[[argparse.Namespace], object]

ALWAYS: dict[str, Benchmark] = {
    "plain": lambda _: plain.run(),
    "plain-every": lambda _: plain.every(),
    "plain-tests": lambda _: plain.table_of_tests(),
    "kernels": lambda _: kernels.run(),
    "normed-sum": lambda chosen: normed_sum.run((tuple(chosen.cell),) if chosen.cell else normed_sum.CELLS),
    "secure-sum": lambda _: secure_sum.run(),
    "shares": lambda _: share_costs.run(),
    "run": lambda _: protocol_run.run(),
    "peers": lambda _: peers.run(),
    "peers-run": lambda _: peers_run.run(),
    "figure-3": lambda _: figure_3.run(),
}
"""What `all` runs."""

BY_NAME: dict[str, Benchmark] = {
    "advantage": lambda chosen: advantage.run(
        chosen.corpora,
        chosen.sizes,
        chosen.mechanisms,
        documents=chosen.documents,
        with_runs=chosen.with_runs,
        workers=chosen.workers,
    ),
    "hidden": lambda chosen: hidden.run(
        hidden.Asked(
            chosen.parties,
            chosen.features,
            chosen.ranks,
            chosen.today,
            chosen.topics,
            chosen.delay,
            chosen.sweeps,
            chosen.mails,
            chosen.ratings,
            chosen.only_final,
            chosen.noise,
        )
    ),
    "hidden-leak": lambda chosen: hidden_leak.run(chosen.corpora, chosen.features, chosen.runs, chosen.topics),
    "frontier": lambda chosen: (
        frontier.scaling([one for one in chosen.corpora if frontier.TEXTS.get(one)], chosen.features)
        if chosen.scaling
        else frontier.run([corpus for corpus in chosen.corpora if corpus in frontier.CORPORA], chosen.out)
    ),
    "drawn": lambda chosen: drawn.run([one for one in chosen.corpora if one in drawn.CORPORA], chosen.splits),
    "drawn-attacks": lambda chosen: drawn.attack(chosen.corpora),
    "iterations": lambda chosen: iterations.run(chosen.features, chosen.ranks),
    "ratings": lambda _: ratings.run(),
    "pem-hosts": lambda chosen: pem_hosts.run(chosen.clients, chosen.servers),
    "protocols": lambda chosen: protocols_table.run(chosen.sizes_of_runs, chosen.protocols),
    "single-runs": lambda chosen: single_runs.run(chosen.corpora, chosen.sizes, min(chosen.runs, 8), chosen.ranks),
    "signed": lambda chosen: signed.run(chosen.files, chosen.size, chosen.simulated),
    "signed-lists": lambda chosen: signed_lists.run(chosen.lists, chosen.simulated),
    "power": lambda chosen: power.run(chosen.cases),
    "scale": lambda chosen: scale.run(chosen.scales, chosen.runs),
    "curves": lambda _: curves.run(),
    "bounds": lambda chosen: bounds.run(_specs(chosen), chosen.workers, chosen.whole, quick=chosen.quick),
    "speed": lambda chosen: speed.whole(_specs(chosen), chosen.workers, chosen.whole),
    "store": lambda chosen: scale.store_parts(chosen.spec or SPEC),
    "verdicts": lambda chosen: verdicts.run(chosen.corpora, chosen.sizes, chosen.store),
    "forecasts": lambda _: forecasts.run(),
    "verdicts-final": lambda chosen: verdicts.final(chosen.store),
}
"""What takes long, and is run by its name alone."""


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=[*ALWAYS, *BY_NAME, "all"], default="all")
    parser.add_argument("files", nargs="*", help="of `signed`: a clearance or a file of ids, and a spec")
    parser.add_argument("--size", type=int, help="of `signed`: documents in a run, where no clearance says it")
    parser.add_argument("--simulated", type=int, default=signed.RUNS, help="of `signed`: runs")
    parser.add_argument(
        "--lists", nargs="*", choices=[*signed_lists.SETTINGS], default=[], help="of `signed-lists`"
    )
    parser.add_argument("--spec", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--corpora", nargs="+", default=list(advantage.CORPORA))
    parser.add_argument("--mechanisms", nargs="+", default=list(advantage.MECHANISMS))
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--with-runs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("frontier"), help="Of `frontier`: folder of pictures.")
    parser.add_argument(
        "--scaling", action="store_true", help="Of `frontier`: what is kept of how many documents."
    )
    parser.add_argument("--splits", type=int, default=10, help="Of `drawn`: how often documents are held out.")
    parser.add_argument("--sizes", nargs="+", type=float, default=list(advantage.SIZES))
    parser.add_argument("--scales", nargs="+", type=int, default=[20_000, 200_000], help="documents")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--parties", nargs="+", type=int, default=[3])
    parser.add_argument("--features", nargs="+", type=int, default=[500, 1000])
    parser.add_argument("--ranks", nargs="+", type=int, default=[7])
    parser.add_argument("--today", action="store_true")
    parser.add_argument("--topics", action="store_true")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--sweeps", type=int, default=hidden.SWEEPS)
    parser.add_argument("--mails", type=int)
    parser.add_argument("--ratings", action="store_true")
    parser.add_argument("--only-final", action="store_true")
    parser.add_argument("--noise", type=float, default=0.0, help="Of `hidden`: deviation on every entry of V.")
    parser.add_argument("--clients", nargs="+", type=int, default=[10_000])
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--party-counts", dest="sizes_of_runs", nargs="+", type=int, default=[2, 3, 5, 10])
    parser.add_argument("--cell", nargs=2, type=int, help="parties and entries of one normed sum")
    parser.add_argument("--protocols", nargs="+", choices=[*protocols_table.PROTOCOLS, "pem"])
    parser.add_argument("--cases", nargs="+", default=(), help="of `power`: words of their names")
    parser.add_argument("--store", type=Path, default=Path("store-verdicts"), help="folder that keeps audits")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--whole", type=int, nargs="?", const=200, default=200, help="of whole audits: runs with a document"
    )
    return parser


def main() -> None:
    os.environ["KSDP_DATA"] = str(data_folder())  # the specs of examples/ name it
    chosen = _options().parse_args()
    for name, run in ALWAYS.items() if chosen.name == "all" else [(chosen.name, (ALWAYS | BY_NAME)[chosen.name])]:
        print(f"== {name}", flush=True)
        run(chosen)


if __name__ == "__main__":
    main()
