"""Draw the picture of two arms: `python tools/pictures.py`. `benchmarks frontier` draws the other with numbers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.datasets import load_wine

import ksdp
from ksdp.dashboards.charts import ecdf_svg
from ksdp.flows.audits.first_spec import first_spec

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"


def standalone(chart: str) -> str:
    """A chart of the pages as a file by itself, with its part of their style."""
    css = (ROOT / "src" / "ksdp" / "dashboards" / "static" / "app.css").read_text(encoding="utf-8")
    colours = css[css.index(":root") : css.index("*, *::before")]
    rules = re.findall(r"^\.(?:chart|curve|grid|axis|gap)\b[^{]*\{.*\}$", css, re.MULTILINE)
    style = "\n".join([colours.strip(), *rules, "svg { background: var(--paper); color: var(--ink); }"])
    named = str(chart).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return named.replace(">", f">\n<style>\n{style}\n</style>\n", 1) + "\n"


def arms(folder: Path) -> str:
    """The two arms of one wine: the strongest evidence of the first audit in `docs/first-audit.md`."""
    spec = _first_spec(load_wine, folder / "wines.csv", "wine", 0.4)
    found = ksdp.audit(spec, store=folder / "store")
    wine = str(found.verdicts["log10_adjusted_p"].idxmin())
    curve = found.values(wine)
    assert curve.gap is not None
    return ecdf_svg(curve.with_values, curve.without_values, curve.gap, document=wine, statistic=curve.statistic)


def _first_spec(load: Callable[..., Any], data: Path, index: str, margin: float) -> Path:
    """A table of scikit-learn as a file, and what `ksdp init` writes for it."""
    load(as_frame=True).frame.to_csv(data, index_label=index)
    spec = data.with_suffix(".toml")
    spec.write_text(first_spec(str(data), data.parent, margin), encoding="utf-8")
    return spec


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        picture = standalone(arms(Path(name)))
    (PICTURES / "arms.svg").write_text(picture, encoding="utf-8")
    print(re.search(r'aria-label="([^"]*)"', picture)[1])  # type: ignore[index]
