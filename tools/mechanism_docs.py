"""Words of `docs/mechanisms.md`: what each parameter and released array of a mechanism is; and of a forecast."""

from __future__ import annotations

FORECAST = {
    "unread": "Reasons why no document can be clear, however many runs there are; empty if there are none.",
    "detectable_D": "A leak of this advantage is detected 8 times in 10, even as the only one.",
    "certifiable_margin": "At this margin, documents that leak nothing are called clear 8 times in 10.",
    "with_runs_for_margin": "`with_runs` that does so at the margin of the call; None if none does.",
    "runs": "Number of runs, of which `n_with` contain a document, and `n_without` do not.",
    "cpu_seconds": "CPU seconds of each part, within a factor of two.",
    "memory": "Bytes of a worker and of the starting process at their peak, within a factor of 1.5.",
    "notes": "What is odd about the data or the settings, in sentences.",
}
"""Keys of `ksdp.plan(...)` that programs use."""
SHARED = {
    "adjacency": "Databases that the promise compares: `replace-one` (one record is replaced by any other) or "
    "`add-remove` (there is one record more or less).",
    "bound": "Largest L1 norm of what one record adds; more is scaled down.",
    "colluders": "Number of parties whose noise an attacker may know, so that the promise still holds.",
    "colluding": "Number of servers whose noise an attacker may know; below `servers`.",
    "delta": "Probability with which epsilon need not hold.",
    "epsilon": "Promise for the whole run, from which the size of the noise follows.",
    "fraction_bits": "Binary digits after the point to which a record's numbers are rounded.",
    "iterations": "Number of iterations.",
    "opens": "`every round`: all arrays are released; `final`: those in bold alone.",
    "period": "Every so many iterations something is announced; a device does the others by itself.",
    "rank": "Number of directions or topics.",
    "row_bound": "Largest length (Euclidean norm) of a row; longer rows are scaled down to it.",
    "sampler": "`fast` simulates the noise, for audits; `discrete` draws it with OpenDP, as runs do.",
    "sampling": "Chance of a record to enter an iteration.",
    "servers": "Number of servers, at least 2; each adds all of the noise.",
    "start_seed": "Seed of the start, which is random and public.",
    "target": "Number of directions that are released; `none`: all of `rank`.",
    "tolerance": "With `solver` `power`: the iteration stops when the directions turn by less than this sine.",
    "unit": "`record`: one record is protected; `entry-printed`: one entry of a matrix, as the paper has it.",
}
"""Parameters that mean the same in several mechanisms."""
_SVD = {
    "iterations": "With `solver` `power`: the most iterations.",
    "reveal_sigma": "Whether the sums are released with their lengths, and the singular values with them.",
    "solver": "`limit` computes what the iteration converges to; `power` iterates, and shows when it stopped.",
}
_PEM = {
    "label": "Column of the label (0 or 1), counted from 0; -1: the last.",
    "rate": "Size of the first step; the t-th is divided by sqrt(t).",
    "penalty": "Weight of the L2 penalty.",
    "clusters": "Number of clusters.",
    "high": "Largest entry of a record; centres are kept between 0 and it.",
    "share": "Part of epsilon that the sums get; the counts get the rest.",
    "longest": "Largest number of items of a record; the others are cut off.",
    "support": "Smallest part of the records that must have an itemset.",
    "length": "Largest number of items in an itemset.",
    "keep": "Largest number of candidates of one length.",
}
_ONE_SUM = {
    "advantage": "Largest advantage of any attack on any record; the size of the noise follows from it.",
    "colluders": "Number of parties that may put together what they know, at least 1; `none`: all but one.",
    "noise": "Standard deviation of the noise in each number, in place of `advantage`.",
    "shrink": "Standard deviations of the noise by which numbers are moved towards 0 before `V` follows.",
}
OWN: dict[str, dict[str, str]] = {
    "counted-svd": {
        "shrink": "Number of documents; a term that so many documents have counts for half.",
        "iterations": "Number of secure sums of the power iteration.",
    },
    "dp-nmf": {
        "sweeps": "Number of passes over all topics; each costs privacy.",
        "contribution": "Largest norm of what one record adds to a sum; more is scaled down.",
        "weighted": "Whether entries that are not stored are unknown (ratings), and not 0.",
    },
    "dpdispca": {
        "intermediate": "Number of directions that a site sends, at least `rank`.",
        "calibration": "`analytic`: noise that keeps the promise; `printed`: that of the paper.",
    },
    "fedpower": {
        "noise": "Deviation of the devices' noise, in place of what follows from epsilon.",
        "central_noise": "Deviation of the server's noise; given together with `noise`.",
        "reference": "Basis that devices turn theirs towards: the last `common` one, or the `first` device's.",
    },
    "fedpower-private": {
        "noise": "Deviation of one device's noise, in place of what follows from epsilon.",
        "distributed": "Whether the devices share the noise, each adding a part.",
        "entry_bound": "Largest entry of the second moments; for `unit` `entry-printed` alone.",
        "clip": "Largest entry of the basis; for `unit` `entry-printed` alone.",
    },
    "fedpower-utility": {"noise": "Deviation of the noise of one device, which is what is left in a sum."},
    "moments": _ONE_SUM,
    "noisy": {
        "mechanism": "Name of the other mechanism.",
        "noise": "Standard deviation of the noise, in units of `scale`.",
        "parameters": "Those of the other mechanism.",
        "plain": "Arrays that are released without noise.",
        "mechanism_version": "Version of the other mechanism, which is filled in.",
        "scale": "Typical size of an entry: a public number, or one for each array; `none`: the run's own.",
    },
    "pd-nmf": {
        "start": "`random`, `random-2x`, `nnsvd`, `best-of-m` or `pd-nmf-init`: how topics begin.",
        "sweeps": "Largest number of passes over all topics.",
        "tolerance": "The run stops after a sweep that changes the topics by at most this part of their norm.",
        "alpha": "Weight of a penalty on the sum of the topics' entries.",
        "beta": "Weight of a penalty on the squares of the topics' entries.",
        "gamma": "Weight of a penalty on the sum of the documents' weights.",
        "delta": "Weight of a penalty on the squares of the documents' weights.",
        "weighted": "Whether entries that are not stored are unknown (ratings), and not 0.",
    },
    "pd-pca": _SVD
    | {"centre": "`all`: the mean of all rows is subtracted and released; `own`: each party its own."},
    "pd-svd": _SVD,
    "sigma-svd": _SVD,
    "pem-apriori": _PEM,
    "pem-kmeans": _PEM,
    "pem-logistic": _PEM,
    "planted-leak": {"strength": "Probability with which a run shows the data."},
    "term-counts": _ONE_SUM,
}
"""Parameters of one mechanism, or what a shared one means there."""
ARRAYS = {
    "V": "The directions, one in a row.",
    "T": "The topics, one in a row.",
    "sums": "The sum of each round, from which the next directions follow.",
    "span": "A basis of the space that the directions of the first ten iterations span.",
    "span_sigma": "The singular values in this space.",
    "first_blocks": "The directions before and after each early iteration.",
    "block_sums": "The sums behind these.",
    "blocks": "The directions after each of ten iterations.",
}
"""Released arrays that are the same in several mechanisms."""
_OF_PEM = {
    "sums": "Noisy sums of the records of each cluster.",
    "counts": "Noisy numbers of these records.",
    "centres": "The centres with which each sum was taken.",
    "gradients": "Noisy sums of the records' gradients.",
    "weights": "The weights at which each was taken.",
    "label": "The column of the label.",
    "items": "Noisy counts of the items.",
    "pairs": "Noisy counts of the candidate pairs.",
    "longer": "Noisy counts of the longer candidates.",
    "itemsets": "The items of these candidates.",
}
OWN_ARRAYS: dict[str, dict[str, str]] = {
    "counted-svd": {
        "counts": "The number of rows with each term, and of all rows.",
        "sums": "The sums of the early rounds.",
        "blocks": "The sums of all rounds.",
    },
    "dp-nmf": {
        "sums": "The numerators of each topic in each sweep.",
        "weights": "The denominators.",
        "denominators": "The denominators of the last sweep.",
    },
    "dpdispca": {"P": "What one site sends: its directions, times the roots of their strengths."},
    "fedpower": {
        "means": "What the server sends to all.",
        "uploads": "What one device sends to the server.",
        "scales": "The largest entry of that device's basis.",
    },
    "moments": {"moments": "The sums of products of every two columns, with noise."},
    "pd-nmf": {
        "numerators": "The sums of the last sweep, from which the topics follow.",
        "denominators": "What these are divided by.",
        "sums": "The sums of the early sweeps.",
        "weights": "What these are divided by.",
        "total": "The sums of all sweeps, added up.",
        "total_weights": "What all are divided by, added up.",
        "sweeps": "The number of sweeps.",
        "topics": "The topics before and after each early sweep.",
        "round_sums": "The sums of every sweep.",
        "round_weights": "What these are divided by.",
    },
    "pd-pca": {"mean": "The mean of all rows."},
    "sigma-svd": {"sigma": "The singular values."},
    "pem-apriori": _OF_PEM | {"T": "The items' counts, as parts of the records."},
    "pem-kmeans": _OF_PEM | {"T": "The last centres."},
    "pem-logistic": _OF_PEM | {"V": "The last weights, of length 1."},
    "term-counts": {"totals": "About how many documents have each term, with noise."},
}
"""Released arrays of one mechanism, or what a shared name means there."""
