"""What is written is what is there: generated pages, links, and the tutorial, which runs."""

import itertools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer.main

import ksdp
from ksdp.cli import app
from ksdp.extras.pem.spec import PemSpec
from ksdp.flows.runs.budget import BudgetFile
from ksdp.flows.schedules.events import CAUSES
from ksdp.protocols.programs.protocol_file import RunSpec

from .fences import fences, run_python
from .scripts import script

numbers = script("measure").numbers

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_generated_pages_are_those_of_the_code() -> None:
    docs = script("reference_docs")
    for name, page in docs.WRITTEN.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), "run tools/reference_docs.py"
    listed = {page for pages in docs.PAGES.values() for page in pages}
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_table_command_and_key_is_in_the_generated_pages() -> None:
    def said(page: str) -> str:
        return (ROOT / "docs" / page).read_text(encoding="utf-8")

    rows = re.findall(
        r"^class (\w+Row)\b", (ROOT / "src" / "ksdp" / "storage" / "findings.py").read_text(), re.MULTILINE
    )
    assert {name for name in rows if not name.startswith("_")} <= set(script("reference_docs").EXAMPLES)
    commands = [one.name for one in app.registered_commands]
    for group in app.registered_groups:
        inner = group.typer_instance
        commands += [f"{inner.info.name} {one.name}" for one in inner.registered_commands]
    assert [name for name in commands if f"### `ksdp {name}`" not in said("commands.md")] == []
    assert [event for event in CAUSES if f"| `{event}` |" not in said("scheduling.md")] == []
    for model in (RunSpec, PemSpec, BudgetFile):
        for key in model.model_fields:
            assert re.search(rf"[\[`]{re.escape(key)}\b", said("file-keys.md")), (model.__name__, key)


@pytest.mark.parametrize("page", ["spec.md", "file-keys.md", "results.md"])
def test_every_key_and_column_has_a_sentence(page: str) -> None:
    rows = re.findall(r"^- `.*$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 40
    assert [row for row in rows if row.rstrip().endswith("):")] == []


def figures_of(page: str, known: dict[str, Any]) -> list[str]:
    """Numbers of a page's prose and tables that no command printed that the same part of the page names."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"arXiv [\d.]+|Python 3\.\d+|\]\([^)]*\)|rank \d+", " ", text)
    missing = []
    for part in re.split(r"^#+ ", text, flags=re.MULTILINE):
        quoted = re.findall(r"`([^`]*)`", part)
        commands = tuple(
            each
            for each in quoted
            if each.startswith(("python -m benchmarks ", "python -m benchmarks.", "python benchmarks/"))
        )
        tables = tuple(f"python -m papers {each} --short" for each in quoted)
        said = [
            one
            for one in known
            if one.removeprefix("pytest -s ") in quoted or one.startswith(commands) or one in tables
        ]
        printed = [float(one) for each in said for one in [*known[each]["figures"], *numbers(each)]]
        for one in numbers(re.sub(r"`[^`]*`", " ", part)):
            digits = len(one.partition(".")[2])
            is_small = "." not in one and float(one) <= 100
            if not is_small and not any(abs(float(one) - value) <= 0.5001 * 10.0**-digits for value in printed):
                missing.append(one)
    return missing


MEASURED = ("measured", "why-everything-leaks", "gain-and-levers", "peers", "pem", "reproduced", "comparison")


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}.md" for name in MEASURED)])
def test_every_figure_has_a_command_that_prints_it(page: str) -> None:
    known = json.loads((ROOT / "docs" / "measured.json").read_text(encoding="utf-8"))
    assert all(set(entry) == {"date", "machine", "load", "figures"} for entry in known.values())
    assert figures_of(page, known) == []


def test_samples_have_the_numbers_that_pages_say() -> None:
    said = {
        name: (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("gallery.md", "what-a-verdict-means.md")
    }
    rows = re.findall(
        r"\]\((sample/\S+)\)[^|]*\| (\d+) \| (\d+), (\d+) of them against every attack \| (\d+) \|",
        said["gallery.md"],
    )
    assert len(rows) == 2
    for name, sensitive, clear, copies, undecided in rows:
        sample = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert f"{sensitive} sensitive, {clear} clear, {undecided} undecided, of 150 documents." in sample
        assert f"{copies} documents have so many copies" in sample
    _, sensitive, clear, copies, undecided = rows[0]
    example = re.findall(r"^- (\d+) texts .*", said["what-a-verdict-means.md"], re.MULTILINE)
    assert example == [sensitive, clear, undecided]
    assert f"For {copies} of them, there are so many copies" in said["what-a-verdict-means.md"]


def test_pictures_stand_by_themselves_and_their_page_says_their_numbers() -> None:
    pictures = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "pictures").glob("*.svg")}
    for text in pictures.values():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert text.count("http") == 1
    arms = re.search(r"over (\d+) runs with document \d+ and (\d+) runs without it", pictures["arms"])
    page = " ".join((ROOT / "docs" / "what-a-verdict-means.md").read_text(encoding="utf-8").split())
    assert f"in {arms[1]} runs with it (blue) and {arms[2]} without it (grey)" in page
    drawn = script("pictures").standalone('<svg class="chart"><path class="axis"/></svg>')
    styles = {
        re.search(r"<style>.*</style>", one, re.DOTALL)[0]
        for one in (drawn, pictures["arms"], pictures["frontier"])
    }  # type: ignore[index]
    assert len(styles) == 1, "run tools/pictures.py: the pages' colours have changed"


def typed_commands(page: Path) -> list[list[str]]:
    """The `ksdp` commands of a page's fenced blocks, as a shell would split them."""
    found = []
    for block in fences(page, "", "console", "sh"):
        for line in (line for line in block.splitlines() if re.search(r"\bksdp ", line)):
            words = shlex.shlex(line, posix=True, punctuation_chars=True)
            words.whitespace_split = True
            for _, part in itertools.groupby(words, lambda word: set(word) <= set("();<>|&")):
                command = list(part)
                if "ksdp" in command[:2] and (command[0] in ("ksdp", "do") or command[0][-1] == "$"):
                    found.append(command[command.index("ksdp") + 1 :])
    return [command for command in found if command]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_command_of_a_page_is_one_that_ksdp_takes(page: Path) -> None:
    known: Any = typer.main.get_command(app)
    context = known.context_class(known)
    for name, *rest in typed_commands(page):
        command = known.get_command(context, name)
        assert command is not None, (page.name, name)
        _, left, _ = command.make_parser(known.context_class(command)).parse_args(rest)
        assert left == [], (page.name, name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_code_and_files_of_a_page_are_whole(page: Path) -> None:
    for block in fences(page, "toml"):
        tomllib.loads(block)
    for block in fences(page, "python") if page.name != "api.md" else ():  # signatures
        compile(block, page.name, "exec")
        assert [name for name in re.findall(r"\bksdp\.(\w+)\(", block) if not hasattr(ksdp, name)] == []


@pytest.mark.validity
def test_the_site_is_built_without_a_warning_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    told = ("--builder", "html", "--fail-on-warning", "--keep-going", "--quiet")
    command = [sys.executable, "-m", "sphinx", *told, str(ROOT / "docs"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for page in PAGES:
        if page.parent == ROOT / "docs":
            text = (tmp_path / "site" / f"{page.stem}.html").read_text(encoding="utf-8")
            fetched = re.findall(r"<(?:script|img|source|link)[^>]* (?:src|href)=\"https?:[^\"]*", text)
            assert fetched == [], page.name
            assert f"ksdp {ksdp.__version__}" in text, page.name
    assert (tmp_path / "site" / "searchindex.js").stat().st_size > 10_000
    for page in (tmp_path / "site" / "decisions").glob("*.html"):
        assert "For maintainers" in page.read_text(encoding="utf-8"), page.name


def test_totals_of_the_explanation_say_who_was_in() -> None:
    assert run_python("why-everything-leaks.md")["everybody_is_known"] is True


@pytest.mark.validity
def test_the_notebook_runs_in_jupyter_and_shows_what_it_says(tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel  # with sockets: no other test of this file needs them

    manager, kernel = start_new_kernel(cwd=str(tmp_path))
    outputs: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []

    def cell(code: str) -> tuple[dict[str, str], str]:
        """What its last line shows, by kind; what it printed."""
        outputs.clear()
        reply = kernel.execute_interactive(code, timeout=600, output_hook=outputs.append)["content"]
        assert reply["status"] == "ok", reply
        shown = [one["content"]["data"] for one in outputs if one["msg_type"] == "execute_result"]
        bars.extend(one for one in outputs if "<progress" in str(one["content"]))
        printed = [one["content"]["text"] for one in outputs if one["msg_type"] == "stream"]
        return (shown[-1] if shown else {}), "".join(printed)

    try:
        for block in fences("notebook.md", "python"):
            shown, _ = cell(block)
            if counts := re.search(r"value_counts\(\)  # (\w+) (\d+)$", block, re.MULTILINE):
                assert re.search(rf"^{counts[1]} +{counts[2]}$", shown["text/plain"], re.MULTILINE)
        assert bars, "a bar under the cell"
        assert "300 sensitive" in cell("found")[0]["text/html"]
        assert cell("found.plot(worst)")[0]["image/png"].startswith("iVBOR")
        assert cell("again.id == found.id")[0]["text/plain"] == "True"
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)


def test_what_the_readme_shows_researchers_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    audit, few = ksdp.audit, {"with_runs": 8, "documents": 40}
    monkeypatch.setattr(ksdp, "audit", lambda *given, **settings: audit(*given, **settings | few))
    known = run_python(ROOT / "README.md")
    assert len(known["found"].verdicts) == 40
    assert known["found"].plot().axes[0].lines
