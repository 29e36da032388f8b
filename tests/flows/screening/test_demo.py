"""What the demo says of its audits, and what it signs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.flows.screening.clear import audited_sizes, bounds_of_all
from ksdp.flows.screening.demo import Demo, demo_specs, demo_words

from ...summaries import example


def test_the_last_setting_is_proved_for_every_part_of_the_corpus_so_that_it_can_be_signed() -> None:
    noise = demo_specs()[-1]
    rows = np.random.default_rng(1).random((40, 6))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    plan = make_plan(Opened.of(noise, Corpus(sp.csr_array(rows), np.array([f"d{row}" for row in range(40)]))))
    assert audited_sizes(plan, bounds_of_all(plan)).every_size
    assert plan.promise.bound <= noise.decision_in_run.margin


def test_words_have_every_verdict_each_report_and_what_makes_it_safe() -> None:
    reports = tuple(f"/store/{name}.html" for name in ("first", "second", "third"))
    first, second, third = (replace(example(), report=report) for report in reports)
    safe = replace(second.verdicts, sensitive=0, clear=second.verdicts.clear + second.verdicts.sensitive)
    signed = (Path("demo.clearance"), Path("demo.pub"), third.documents)
    said = demo_words(Demo(first, replace(second, verdicts=safe), third, *signed))
    for word in ("sensitive", "clear", "undecided", *reports, "ksdp verify demo.clearance --key demo.pub"):
        assert word in said
    assert "What makes this run safer" in said
    assert "What makes it safe" in said
    still = replace(second, verdicts=replace(second.verdicts, sensitive=3))
    assert "What makes this run safer" not in demo_words(Demo(first, still, third, *signed))
