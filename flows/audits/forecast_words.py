"""A forecast in words: what would run, what it costs, what it can find and certify, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["forecast_words"]

_UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}


def forecast_words(said: Mapping[str, Any]) -> str:
    """What `ksdp plan` prints, from what `forecast` returned."""
    lines = [f"{said['sentence']}"] if "sentence" in said else []
    for view in said["views"]:
        lines.append(
            f"{view['name']}: {view['runs']} runs{' (shared)' if view['shared'] else ''}, finds "
            f"{view['detectable_D']:.2f}, certifies {view['certifiable_margin']:.2f}"
        )
    lines += [
        f"{said['documents']} {said['unit']}s, {said['runs']} runs in {said['blocks']} blocks, "
        f"{len(said['statistics'])} statistics",
        *(
            [f"pairs     {said['certificate_runs']} runs besides, for the certificate"]
            if said["certificate_runs"]
            else []
        ),
        f"cost      {said['cpu_hours']:.2f} CPU hours ({said['seconds_a_run'] * 1e3:.1f} ms a run), "
        f"{_bytes(said['bytes'])}{_passing(said) or ' kept'}",
        f"          with blocks at a URL {_bytes(said['moved_bytes'])} moved, and "
        f"{_bytes(said['corpus_bytes'])} more for each machine",
        "          CPU seconds: "
        + ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in said["cpu_seconds"].items())
        + " at most",
        f"finds     a leak of advantage {said['detectable_D']:.2f}, 8 times in 10, even as the only one",
        f"certifies a margin of {said['certifiable_margin']:.2f}, 8 times in 10, where there is no leak",
        *_margin(said),
    ]
    if early := said.get("early_look"):
        lines.append(f"look      {_early(early)}")
    if said.get("enough"):
        lines.append(f"enough    {said['enough']['sentence']}")
    lines += [f"note      {note}" for note in said.get("notes", ())]
    if said["unread"]:
        lines.append(
            f"unread    {', '.join(said['unread'])}: nobody looks at it, so that no document can be clear"
        )
    return "\n".join(lines)


def _early(said: dict[str, Any]) -> str:
    """What the first look saves, and at what price where a spec must ask for it."""
    saved = (
        f"about {said['cpu_seconds']:.0f} CPU seconds of {said['of']:.0f} where the first {said['runs']} runs "
        "decide everybody"
    )
    if "looks" not in said:
        return saved
    keys = f'`design.looks = {said["looks"]}` and `decision.spending = "{said["spending"]}"`'
    return f"set {keys}: {saved}; where they do not, bands are {100 * said['wider']:.1f} % wider"


def _bytes(count: float) -> str:
    """In the unit that leaves one to three digits before the point."""
    unit = next(unit for unit in ("TB", "GB", "MB", "kB") if count >= _UNITS[unit] or unit == "kB")
    return f"{count / _UNITS[unit]:.1f} {unit}"


def _passing(said: Mapping[str, Any]) -> str:
    """What is said of values that the store does not keep."""
    if not said.get("passing_bytes"):
        return ""
    again = ", which run the mechanism anew" if said.get("runs_again") else ""
    parts = f", documents in {said['parts']} parts{again}" if said.get("parts", 1) > 1 else ""
    return f" kept, and {said['passing_bytes'] / 1e9:.1f} GB of values that pass{parts}"


def _margin(said: Mapping[str, Any]) -> list[str]:
    if not said["margin"] or said["runs_for_margin"] is None:
        return []
    if said["certifiable_margin"] <= said["margin"]:
        return [f"          the spec's {said['margin']:.2f} is within reach"]
    return [
        f"          the spec's {said['margin']:.2f} takes {said['runs_for_margin']} runs: set "
        f"`design.with_runs = {said['with_runs_for_margin']}`"
        if said.get("with_runs_for_margin")
        else f"          the spec's {said['margin']:.2f} takes {said['runs_for_margin']} runs"
    ]
