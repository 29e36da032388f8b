"""One plain sentence a statistic: what somebody looks at. For pages and reports; formulas are in the code."""

from __future__ import annotations

_SENTENCES = {
    "row-space-energy": "How much of the document the announced directions or topics explain.",
    "best-cosine": "How alike the document and the nearest announced topic or direction are.",
    "coefficient-mahalanobis": "How unusual the document’s weights on the announced topics are.",
    "leverage-revealed": "How strongly the document pulls at the announced directions, their strengths known.",
    "mean-alignment": "Whether the announced mean points towards the document.",
    "numerator-energy": "How much of the document is explained by the announced sums that topics are made of.",
    "nonnegative-residual": "What is left of the document when it is rebuilt from the announced topics.",
    "mixture-log-density": "How likely the document’s own words are under the announced topics.",
    "basis-equations": "Whether the document belongs to those whose sums the announced directions solve.",
    "basis-match": "Whether the announced directions moved the way this document would move them, best weighed.",
    "topics-match": "Whether the announced topics moved the way this document would move them, best weighed.",
    "blocks-match": "Whether what each early round announced turned as this document would turn it, best weighed.",
    "block-sums-match": "Whether sums of early rounds, lengths included, hold what this document adds to them.",
    "sums-match": "Whether the sums of early rounds hold what this document adds to them, best weighed.",
    "releases-match": "Whether the noisy sums hold what this document adds to them, best weighed.",
    "counts-match": "Whether the counts of documents hold what this document adds to them, best weighed.",
    "counts-above": "Whether more documents than expected have the document’s words or columns.",
    "fewest-count": "How many documents have the rarest of the document’s words or columns.",
    "kept-columns": "Whether those words or columns stayed that this document’s being in would have kept.",
    "missing-weight": "How much of the document lies on words or columns that the announcement leaves out.",
    "log-support": "How well the announcement covers each word or column that the document uses.",
    "mean-missing": "How much of the document lies where the announced mean is exactly zero.",
    "moment-energy": "How much of what was announced lies along the document.",
    "moment-leverage": "How unusual the document is for the announced second moments.",
    "moment-match": "How well the announced second moments match the document’s own, best weighed.",
    "site-match": "How well the square of a site’s root matches the document’s own second moments, best weighed.",
    "w-sum": "The paper’s: the sum of the document’s squared weights over all its words and directions.",
    "w-max": "The paper’s: the largest of the document’s squared weights on the announced directions.",
    "w-square-sum": "The paper’s: how much of the document the announced directions explain.",
    "d-sum": "The paper’s: the sum of how far each entry changes when the document is projected.",
    "d-max": "The paper’s: the largest change of an entry when the document is projected.",
    "d-square-sum": "The paper’s: how much of the document the announced directions lose.",
    "sigma": "The paper’s: how heavy the document weighs when written as a mixture of the topics.",
    "pem-own-counts": "How often the document’s own items and pairs were counted.",
    "pem-own-gradient": "Whether the announced steps of learning went where this document would push them.",
    "pem-own-size": "How large the cluster was, step by step, into which the document falls.",
    "pem-own-sum": "Whether the announced sum of the document’s own cluster points towards it.",
    "sums-energy": "How much of the document is explained by all sums that were announced on the way.",
    "init-sums-energy": "How much of the document is explained by the sums announced for the start.",
    "start-energy": "How much of the document is explained by the announced start.",
    "means-energy": "How much of the document is explained by the announced means.",
    "uploads-energy": "How much of the document is explained by what parties sent to the server.",
    "site-energy": "How much of the document is explained by what single sites announced.",
    "sums-log-support": "Whether the document’s words occur in the first announced sums at all.",
    "sums-share": "Whether the document fits into the announced sums: no entry of it may be larger than theirs.",
    "weights-sum": "Whether the announced weights are as large as with the document they would be.",
    "init-weights-sum": "The same for the weights announced while the start was computed.",
    "largest-scale": "The largest of the plain numbers that the server is told.",
    "round-count": "How many rounds the run took: everybody sees when it ends.",
    "init-round-count": "How many rounds the start took: everybody sees when it ends.",
    "span-energy": "How much of the document is explained by what was announced in all rounds together.",
    "span-leverage": "How strongly the document pulls at what was announced in all rounds together.",
}

_BEGINNINGS = {
    "projection:": "How far the announced array {of} reaches in the document’s direction, all vectors together.",
    "match:": "How well the best-matching vector of the announced array {of} fits the document.",
    "distance:": "How near the announced array {of} comes to the document.",
    "sum:": "The sum of the announced array {of}, the same for every document.",
    "size:": "How large the numbers of the announced array {of} are, the same for every document.",
    "coefficient": "The document’s weight on one announced topic or direction.",
}

_FAMILIES = {
    "learned": "A small model, trained on other runs, that combines all statistics into one guess.",
    "coefficients": "The document’s weight on one announced topic or direction.",
    "arrays": "A general comparison of the document with an announced array.",
    "own": "A statistic of whoever made this audit.",
}


def looks_at(statistic: str, family: str = "") -> str:
    """What an adversary who uses a statistic looks at; empty for a user's own statistic.

    >>> looks_at("distance:mean")
    'How near the announced array mean comes to the document.'
    """
    if statistic in _SENTENCES:
        return _SENTENCES[statistic]
    plain = statistic.removesuffix("-revealed")
    if plain in _SENTENCES:
        return f"{_SENTENCES[plain]} The strengths of the directions are announced too."
    for beginning, sentence in _BEGINNINGS.items():
        if statistic.startswith(beginning):
            return sentence.format(of=statistic.removeprefix(beginning).split("#")[0])
    return _FAMILIES.get(family, "")
