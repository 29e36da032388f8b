"""Lint the pages: `python tools/plain_english.py` prints what breaks a rule; `--table` prints a row for each page.

A page says in its second paragraph whom it is for, its sentences are short and easy to read, and a decision has
one form. `make lint` runs this script.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
_END = re.compile(r"(?<=[.!?])[)\"”*]*\s+(?=[\"“(*A-Z0-9])")
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d[\d,.]*")


@dataclass(frozen=True)
class Counts:
    """What a page's prose measures: tables count for the longest sentence only."""

    words: int
    sentences: int
    longest: str
    mean: float
    ease: float


def pages() -> list[Path]:
    """Every page of the repository that people read."""
    folders = (ROOT / "docs", ROOT / "examples")
    return [*sorted(ROOT.glob("*.md")), *(page for folder in folders for page in sorted(folder.rglob("*.md")))]


def _blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Paragraphs, items and cells in order; whether each is a table's cell."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", _FENCE.sub("\n\n", text))
    text = re.sub(r"`[^`]+`", "Code", text)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[#|])|(?<=\|)\n", text):
        part = part.strip()
        if part.startswith("|"):
            yield from ((True, cell.strip()) for cell in part.strip("|").split("|"))
        elif part and not part.startswith(("#", "<")):
            yield False, re.sub(r"^(?:[-*]|\d+\.) ", "", part)


def _syllables(word: str) -> int:
    """About how many syllables a word has: groups of vowels, without a silent e."""
    word = re.sub(r"[^a-z]", "", word.lower())
    groups = len(re.findall(r"[aeiouy]+", word))
    silent = re.search(r"[^aeiouyl]e$|[^aeiouytd]ed$|[^aeiouyszxcg]es$", word) is not None
    return max(1, groups - silent)


def counts(text: str) -> Counts:
    """Measure the prose of a page."""
    sentences, longest = [], ""
    for is_cell, block in _blocks(text):
        for sentence in _END.split(" ".join(block.split())):
            if len(WORD.findall(sentence)) > len(WORD.findall(longest)):
                longest = sentence
            if not is_cell and WORD.search(sentence):
                sentences.append(WORD.findall(sentence))
    words = [word for sentence in sentences for word in sentence]
    if not words:
        return Counts(0, 0, longest, 0.0, 100.0)
    mean = len(words) / len(sentences)
    ease = 206.835 - 1.015 * mean - 84.6 * sum(map(_syllables, words)) / len(words)
    return Counts(len(words), len(sentences), longest, mean, ease)


MOST_WORDS, MOST_MEAN, LEAST_EASE = 40, 18, 50
PARTS_OF_DECISION = ["Context", "Decision", "Consequences", "Rejected"]


def _broken_by_page(page: Path, text: str, one: Counts) -> Iterator[str]:
    """Rules that one page breaks."""
    head = text.split("\n\n")[:2]
    if len(WORD.findall(one.longest)) > MOST_WORDS:
        yield f"a sentence has more than {MOST_WORDS} words: {one.longest}"
    if one.ease < LEAST_EASE:
        yield f"its reading ease is {one.ease:.0f}, below {LEAST_EASE}"
    is_titled = head[0].startswith("# ") and head[1].startswith("*For ")
    if page.parent == ROOT / "docs" and page.name != "README.md" and not is_titled:
        yield "its second paragraph does not begin with `*For `, and who the page is for"


def _broken_by_decisions(decisions: list[Path]) -> Iterator[tuple[Path, str]]:
    """Rules that decisions break: numbers without a gap, and one form."""
    for number, page in enumerate(decisions, start=1):
        text = page.read_text(encoding="utf-8")
        if not (page.name.startswith(f"{number:04}-") and text.startswith(f"# {number}. ")):
            yield page, f"it is not decision {number} by its name and title"
        if re.findall(r"^## (.+)$", text, re.MULTILINE) != PARTS_OF_DECISION:
            yield page, f"its parts are not {', '.join(PARTS_OF_DECISION)}"


def broken() -> list[str]:
    """Every rule that a page breaks, with the page."""
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    every = {page: counts(text) for page, text in texts.items()}
    found = [(page, said) for page, text in texts.items() for said in _broken_by_page(page, text, every[page])]
    found += _broken_by_decisions(sorted((ROOT / "docs" / "decisions").glob("*.md")))
    lines = [f"{page.relative_to(ROOT)}: {said}" for page, said in found]
    mean = sum(one.words for one in every.values()) / sum(one.sentences for one in every.values())
    return lines + [f"all pages: a sentence has {mean:.1f} words on average"] * (mean > MOST_MEAN)


def main() -> int:
    """Print the rules that are broken; exit 1 where there are any."""
    if "--table" in sys.argv:
        table()
        return 0
    found = broken()
    print("\n".join(found), end="\n" * bool(found))
    return int(bool(found))


def table() -> None:
    """Print a row for each page, and the sum."""
    total = words = sentences = 0
    print(f"{'page':42}{'all words':>10}{'sentences':>10}{'mean':>7}{'longest':>8}{'ease':>6}")
    for page in pages():
        text = page.read_text(encoding="utf-8")
        one, everything = counts(text), len(text.split())
        total, words, sentences = total + everything, words + one.words, sentences + one.sentences
        longest = len(WORD.findall(one.longest))
        name = str(page.relative_to(ROOT))
        print(f"{name:42}{everything:>10}{one.sentences:>10}{one.mean:>7.1f}{longest:>8}{one.ease:>6.0f}")
    print(f"{'together':42}{total:>10}{sentences:>10}{words / sentences:>7.1f}")


if __name__ == "__main__":
    sys.exit(main())
