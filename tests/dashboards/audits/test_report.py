"""The report: read back as a browser would, from audits that were really decided."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from ksdp.audit.learning.gain import GainRows, gain_scores, summarise_gain
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.specs.models import GainSpec
from ksdp.dashboards.audits.audit_model import read_audit_model
from ksdp.dashboards.audits.report import render_report
from ksdp.dashboards.audits.result import AuditResult, audit_result
from ksdp.storage.audits.history import read_summary
from ksdp.storage.learning import write_gain
from ksdp.storage.store import Store

from ..html_page import HtmlPage

SECTIONS = (
    "result", "asked", "gain", "chance", "statistics", "worst", "undecided", "controls", "cost", "limits",
    "provenance",
)  # fmt: skip
EIGHT = (
    "d-square-sum", "first-order-basis", "first-order-mean", "linear-basis", "missing-weight", "row-space-energy",
    "w-max", "w-square-sum",
)  # fmt: skip

MakeAudit = Callable[..., tuple[Store, str]]


def stored(store: Store, audit: str) -> AuditResult:
    return audit_result(read_summary(store.audit(audit)))


def report(store: Store, audit: str) -> str:
    return render_report(stored(store, audit))


def read(make_audit: MakeAudit, **options: Any) -> HtmlPage:
    return HtmlPage(report(*make_audit(**options)))


def section(page: HtmlPage, name: str) -> str:
    return page.all("section", id=name)[0][1]


@pytest.fixture(scope="module")
def usual(make_audit: MakeAudit) -> tuple[Store, str]:
    return make_audit(parties={"north": 40, "south & co": 20})


@pytest.fixture(scope="module")
def page(usual: tuple[Store, str]) -> HtmlPage:
    return HtmlPage(report(*usual))


def test_every_section_is_there_in_order_and_in_the_navigation(page: HtmlPage) -> None:
    assert [attrs["id"] for attrs, _ in page.all("section")] == list(SECTIONS)
    links = [attrs["href"] for attrs, _ in page.all("a")]
    assert links == ["#content", *(f"#{name}" for name in SECTIONS)]
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(set(ids)) == len(ids)
    assert {link[1:] for link in links} <= set(ids)


def test_that_joining_gains_nothing_is_said_first(make_audit: MakeAudit) -> None:
    store, audit = make_audit(documents=40, runs=8, leaking=0.0, seed=14)
    before = report(store, audit)
    assert "It was not measured" in section(HtmlPage(before), "gain")
    summary = read_summary(store.audit(audit))
    matrix = sp.csr_array(np.random.default_rng(0).standard_normal((300, 3)) * [3.0, 2.0, 0.1])
    asked = GainSpec(splits=3, parties=3)
    scores = tuple(gain_scores(PDSVD(rank=2), GainRows(matrix, matrix, None), asked, 1))
    write_gain(store, summary.spec, summary.corpus, summarise_gain(scores, "pd-svd", asked, named=False).to_json())
    told = HtmlPage(report(store, audit))
    said = [text for _, text in told.all("p", **{"class": "headline"})]
    assert said[0].startswith("Joining gains nothing here, for parties drawn alike")
    assert len(said) == 2
    assert "energy" in section(told, "gain")


def test_tables_have_captions_and_scopes_and_images_names(page: HtmlPage) -> None:
    assert len(page.all("caption")) == len(page.all("table")) >= 3
    assert all(attrs.get("scope") in ("col", "row") for attrs, _ in page.all("th"))
    for attrs, _ in page.all("svg"):
        assert attrs.get("aria-hidden") == "true" or (attrs["role"] == "img" and len(attrs["aria-label"]) > 20)


def test_nothing_is_loaded_and_nothing_runs(page: HtmlPage) -> None:
    for tag, attrs, _ in page.elements:
        assert tag not in {"script", "iframe", "object", "embed", "img", "form", "base"}
        for name, value in attrs.items():
            assert not name.startswith("on")
            assert name != "style"
            if name in ("src", "href"):
                assert value.startswith("#") or value == "data:,"
    (css,) = [text for _, _, text in (e for e in page.elements if e[0] == "style")]
    source = "".join(css)
    assert "url(" not in source
    assert "@import" not in source
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0][0]["content"]
    assert base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy


def test_the_headline_and_the_counts_are_those_of_the_tables(usual: tuple[Store, str], page: HtmlPage) -> None:
    verdicts = pq.read_table(usual[0].audit(usual[1]) / "verdicts.parquet").to_pandas()
    counts = verdicts["verdict"].value_counts()
    (headline,) = [text for attrs, text in page.all("p", class_="headline")]
    assert headline.startswith(f"PD-SVD gives away {counts['sensitive']} of 60 documents: ")
    assert "at most 5 % are expected to be wrong (false discovery rate)" in headline
    assert counts["sensitive"] > 10
    found = verdicts[verdicts["verdict"] == "sensitive"]
    text = section(page, "result")
    for value in (found["distance"].median(), found["distance"].quantile(0.9), found["distance"].max()):
        assert f"{value:.2f}" in text
    rows = [text for attrs, text in page.all("tr")]
    worst = found.sort_values(["log10_p", "distance"], ascending=[True, False]).iloc[0]
    first = next(row for row in rows if row.startswith(worst["document"]))
    assert f"{worst['distance']:.2f}{worst['band_low']:.2f}–{worst['band_high']:.2f}" in first.replace(" ", "")
    assert f"{worst['n_with']} / {worst['n_without']}" in first


def test_statistics_are_sorted_and_the_paper_is_compared(usual: tuple[Store, str], page: HtmlPage) -> None:
    view = read_audit_model(stored(*usual))
    medians = [row.median for row in view.statistics]
    assert medians == sorted(medians, reverse=True)
    alone, said = view.result.summary.paper_alone, section(page, "statistics")
    assert alone.detected < view.result.summary.detected
    assert f" of {alone.detected} documents would have been detected" in said
    assert f"would have named {alone.uncorrected_below_level}" in said
    assert [(p.paper, p.strongest) for p in view.p_values] == [(True, False), (False, True)]
    assert len([1 for attrs, _ in page.all("svg") if attrs["class"] == "chart histogram"]) == 2


def test_the_worst_documents_are_drawn_with_the_papers_beside(usual: tuple[Store, str], page: HtmlPage) -> None:
    view = read_audit_model(stored(*usual))
    assert len(view.worst) == 12
    for item in view.worst:
        assert item.row.verdict == "sensitive"
        assert 1 <= len(item.pictures) <= 2
        assert any(picture.paper for picture in item.pictures)
        assert item.pictures[0].statistic == item.row.statistic
        assert f"D is {item.pictures[0].distance:.2f}" in item.pictures[0].chart
    drawn = [1 for attrs, _ in page.all("svg") if attrs["class"] == "chart ecdf"]
    assert len(drawn) == sum(len(item.pictures) for item in view.worst)


@pytest.mark.parametrize("valid", [True, False])
def test_the_banner_is_there_iff_the_audit_is_void(make_audit: MakeAudit, valid: bool) -> None:
    def change(summary: dict[str, Any]) -> None:
        summary["valid"] = valid
        summary["controls"]["reason"] = None if valid else "a null control was detected (p = 3.1e-09)"

    page = read(make_audit, change=change)
    banners = page.all("aside", class_="void-banner")
    assert len(banners) == (not valid)
    assert ("void" in page.all("title")[0][1]) == (not valid)
    assert ("gives away" in page.all("p", class_="headline")[0][1]) == valid
    if not valid:
        body = next(at for at, (tag, _, _) in enumerate(page.elements) if tag == "body")
        assert page.elements[body + 2][0] == "aside"  # right after the skip link
        assert "No verdict in this report may be used" in banners[0][1]
        for text in (banners[0][1], section(page, "result"), section(page, "controls")):
            assert "a null control was detected (p = 3.1e-09)" in text
        assert "No verdict may be used" in section(page, "result")
        assert all("(void" in text for attrs, text in page.all("p") if attrs.get("class", "").startswith("tag "))


def test_hostile_names_are_text(make_audit: MakeAudit) -> None:
    hostile = "<script>alert('&')</script><img src=x onerror=1>" + "\0" + "y" * 300
    page = read(
        make_audit,
        ids=[f"{n}{hostile}" for n in range(60)],
        names=("row-space-energy", '"><b id=x>'),
        parties={hostile: 60},
        spec={"corpus": {"path": '"><script>.parquet', "text": "</pre><script>"}, "decision": {"margin": 0}},
    )
    assert not page.all("script")
    assert not page.all("img")
    assert not page.all("b")
    assert "0<script>alert('&')</scr…" in page.text()
    assert '"text": "</pre><script>"' in page.all("pre")[0][1]
    assert max(len(value) for _, attrs, _ in page.elements for value in attrs.values() if "title" in attrs) <= 201


def test_nothing_sensitive_no_paper_statistic_no_parties(make_audit: MakeAudit) -> None:
    page = read(make_audit, leaking=0.0, names=("row-space-energy",))
    assert "No document was proved to be given away by PD-SVD, but all 60 are undecided" in page.text()
    assert "neither that their advantage is above the margin nor that it is below" in section(page, "undecided")
    assert "The strongest evidence" in page.text()
    assert "None of the paper’s own statistics was part of this audit." in section(page, "statistics")
    assert "None named." in section(page, "asked")
    assert not page.all("table", class_="listing")
    assert len([1 for attrs, _ in page.all("svg") if attrs["class"] == "chart histogram"]) == 1
    assert [attrs["id"] for attrs, _ in page.all("section")] == list(SECTIONS)


def test_bands_hold_at_the_level_of_clear(make_audit: MakeAudit) -> None:
    """Schedules spend it apart, and the first audit of `lord` has more of it than for discoveries."""
    page = read(make_audit, spec={"decision": {"level": 0.01, "clear_level": 0.02}})
    assert "hold together with probability 98 %" in section(page, "result")
    assert "at once with probability 98 %" in page.text()


def test_what_nobody_looked_at_is_said_where_nothing_can_be_clear(make_audit: MakeAudit) -> None:
    def unread(summary: dict[str, Any]) -> None:
        summary["announced"] = [{"name": "V", "shape": [2, 9]}, {"name": "span", "shape": [20, 9]}]
        summary["unread"] = ["span"]

    page = read(make_audit, leaking=0.0, change=unread)
    assert "Nobody looked at span: no document can be clear" in section(page, "asked")
    assert "while no statistic reads span" in section(page, "undecided")
    assert "no statistic reads" not in section(read(make_audit, leaking=0.0), "undecided")


@pytest.mark.parametrize(("kind", "decision"), [("shared", {"error": "fwer"}), ("balanced", {}), ("literal", {})])
def test_designs_and_corrections_have_words(make_audit: MakeAudit, kind: str, decision: dict[str, str]) -> None:
    design = {"kind": kind, "documents": 20, "sampling": "poisson"}
    page = read(make_audit, documents=20, spec={"design": design, "decision": decision})
    text = section(page, "asked")
    assert {"shared": "serve every", "balanced": "probability one half", "literal": "Algorithm 5"}[kind] in text
    assert "Part of what is detected may be the size" in text
    word = "Holm" if decision.get("error") else "Yekutieli"
    assert word in text


def test_other_parties_damage_and_skips_are_told(make_audit: MakeAudit) -> None:
    def change(summary: dict[str, Any]) -> None:
        summary["design"] |= {"honest_rows": 1234, "coalition_rows": 1}
        summary["damaged_blocks"] = [f"observables/00-{n:04d}.parquet" for n in range(10)]
        summary["announced"] = [{"name": "V", "shape": [7, 12164]}]
        summary["controls"]["planted_largest_p"] = 0.0

    page = read(make_audit, change=change)
    asked = section(page, "asked")
    assert "1,234 rows of honest parties" in asked
    assert "the coalition’s own 1 row is in every run" in asked
    assert "It announces V (7 × 12,164)." in asked
    assert "w-max-revealed (sigma)" in section(page, "provenance")
    assert "10 stored blocks were found damaged" in section(page, "cost")
    assert "and 2 more" in section(page, "cost")
    assert "largest p below 10−300.0" in section(page, "controls")


def test_a_thousand_documents_fit_in_half_a_megabyte(make_audit: MakeAudit) -> None:
    store, audit = make_audit(
        documents=1000, runs=600, names=EIGHT, families={"d-square-sum": "paper", "w-square-sum": "paper"},
        strength=4.0, ids=[f"<20011114.{n:07d}.JavaMail.evans@thyme.example>" for n in range(1000)],
    )  # fmt: skip
    assert len(report(store, audit).encode()) < 500_000
