"""Write what ksdp is made of: `python tools/bill.py sbom.json`.

From the metadata of what is installed here, and nothing else: a CycloneDX bill of materials (JSON, version 1.5) of
ksdp and everything that it needs at run time, with licences. The same environment gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

__all__ = ["bill", "licence_of", "needed"]

_CLASSIFIER = "License :: OSI Approved :: "
_LONGEST = 60
STRONG = re.compile(r"\b(A?GPL)(v?\d|-\d| |$)", re.IGNORECASE)
"""Copyleft stronger than the LGPL: nothing of it is needed at run time."""


def spelt(name: str) -> str:
    """A package's name as the lock has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str = "ksdp") -> list[Distribution]:
    """A package with all its extras but those of developers, and all that these need at run time, by name."""
    found: dict[str, Distribution] = {}
    wanted = [(name, frozenset({"all"}))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        name, extras = wanted.pop()
        key = spelt(name)
        if (key, extras) in seen:
            continue
        seen.add((key, extras))
        try:
            one = found.setdefault(key, distribution(name))
        except PackageNotFoundError:
            continue  # for another system
        for line in one.requires or ():
            asked = Requirement(line)
            if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                wanted.append((asked.name, frozenset(asked.extras)))
    return [found[key] for key in sorted(found)]


def licence_of(one: Distribution) -> str:
    """In the words of its metadata: the expression, else the classifiers, else the first line of the field."""
    about: Any = one.metadata
    if said := about.get("License-Expression"):
        return str(said)
    classes = [c.removeprefix(_CLASSIFIER) for c in about.get_all("Classifier") or () if c.startswith(_CLASSIFIER)]
    if classes:
        return " OR ".join(sorted(classes))  # several are usually a choice
    first = str(about.get("License") or "").strip().split("\n")[0]
    return first[:_LONGEST] or "not said"


def bill(parts: list[Distribution]) -> dict[str, Any]:
    """As CycloneDX has it; the first component is what the bill is of."""
    components = [
        {
            "type": "library",
            "name": spelt(one.metadata["Name"]),
            "version": one.version,
            "purl": f"pkg:pypi/{spelt(one.metadata['Name'])}@{one.version}",
            "licenses": [{"license": {"name": licence_of(one)}}],
        }
        for one in parts
    ]
    main = next(one for one in components if one["name"] == "ksdp")
    others = [one for one in components if one is not main]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main | {"type": "application"}},
        "components": others,
    }


def main(sbom: Path) -> int:
    """Write it; 1 where a licence is one that must not be needed."""
    parts = needed()
    sbom.write_text(json.dumps(bill(parts), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    strong = [one.metadata["Name"] for one in parts if is_strong(licence_of(one))]
    for name in strong:
        print(f"{name} has a copyleft stronger than the LGPL", file=sys.stderr)
    return 1 if strong else 0


def is_strong(licence: str) -> bool:
    """Whether a licence is a copyleft stronger than the LGPL, and not one of several to choose from."""
    choices = re.split(r"\s+OR\s+", licence)
    return all(STRONG.search(c) or re.search(r"(?<!Lesser )General Public License", c) for c in choices)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
