"""An audit of documents drawn at random says what it knows of all of them."""

from collections.abc import Callable
from pathlib import Path

from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file


def test_the_summary_and_the_report_bound_the_share_that_leaks(spec: Callable[..., Path], tmp_path: Path) -> None:
    read, base = read_spec_file(spec("drawn", families=["geometry"], with_runs=10))
    drawn = read.model_copy(update={"design": read.design.model_copy(update={"documents": 40, "fresh_runs": 0})})
    found = run_audit(open_spec(drawn, base), tmp_path / "store", HERE)
    share = found.share
    assert (share.drawn, share.population, share.level) == (40, 120, 0.05)
    # With a margin of 0 nothing is ever clear: all that were not drawn may leak.
    assert 0 < share.low <= found.verdicts.sensitive / 40 + 80 / 120
    assert share.high == 1.0
    page = Path(found.report).read_text(encoding="utf-8")
    assert "are drawn at random from 120" in page
