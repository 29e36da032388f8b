"""The penalties under which every NMF is tried: none, each one alone, all together."""

from __future__ import annotations

PENALTIES = [
    {},
    {"alpha": 0.3},
    {"beta": 0.5},
    {"gamma": 0.2},
    {"delta": 0.7},
    {"alpha": 0.05, "beta": 0.1, "gamma": 0.02, "delta": 0.2},
]
