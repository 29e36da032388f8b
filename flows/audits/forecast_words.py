"""A forecast in words: what would run, what it costs, what it can find and certify, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}


def forecast_words(forecast: Mapping[str, Any]) -> str:
    """What `ksdp plan` prints, from what `forecast` returned."""
    lines = [f"{forecast['sentence']}"] if "sentence" in forecast else []
    for view in forecast["views"]:
        lines.append(
            f"{view['name']}: {view['runs']} runs{' (shared)' if view['shared'] else ''}, finds "
            f"{view['detectable_D']:.2f}, certifies {view['certifiable_margin']:.2f}"
        )
    lines += [
        f"{forecast['documents']} {forecast['unit']}s, {forecast['runs']} runs in {forecast['blocks']} blocks, "
        f"{len(forecast['statistics'])} statistics",
        *(
            [f"pairs     {forecast['certificate_runs']} runs besides, for the certificate"]
            if forecast["certificate_runs"]
            else []
        ),
        f"cost      {forecast['cpu_hours']:.2f} CPU hours ({forecast['seconds_a_run'] * 1e3:.1f} ms a run), "
        f"{_bytes(forecast['bytes'])}{_passing(forecast) or ' kept'}",
        f"          with blocks at a URL {_bytes(forecast['moved_bytes'])} moved, and "
        f"{_bytes(forecast['corpus_bytes'])} more for each machine",
        "          CPU seconds: "
        + ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in forecast["cpu_seconds"].items())
        + f"; all together {forecast['cpu_seconds_at_most']:.0f} at most",
        f"finds     a leak of advantage {forecast['detectable_D']:.2f}, 8 times in 10, even as the only one",
        f"certifies a margin of {forecast['certifiable_margin']:.2f}, 8 times in 10, where there is no leak",
        *_margin(forecast),
    ]
    if early := forecast.get("early_look"):
        lines.append(f"look      {_early(early)}")
    if forecast.get("enough"):
        lines.append(f"enough    {forecast['enough']['sentence']}")
    lines += [f"note      {note}" for note in forecast.get("notes", ())]
    if copies := forecast.get("certified_copies"):
        lines.append(
            f"copies    {copies} documents have so many that they are certified clear, whatever a run shows"
        )
    if forecast["unread"]:
        lines.append(
            f"unread    {', '.join(forecast['unread'])}: nobody looks at it, so that no document can be clear"
        )
    return "\n".join(lines)


def _early(look: dict[str, Any]) -> str:
    """What the first look saves, and at what price where a spec must ask for it."""
    saved = (
        f"about {look['cpu_seconds']:.0f} CPU seconds of {look['of']:.0f} where the first {look['runs']} runs "
        "decide everybody"
    )
    if "looks" not in look:
        return saved
    keys = f'`design.looks = {look["looks"]}` and `decision.spending = "{look["spending"]}"`'
    return f"set {keys}: {saved}; where they do not, bands are {100 * look['wider']:.1f} % wider"


def _bytes(count: float) -> str:
    """In the unit that leaves one to three digits before the point."""
    unit = next(unit for unit in ("TB", "GB", "MB", "kB") if count >= _UNITS[unit] or unit == "kB")
    return f"{count / _UNITS[unit]:.1f} {unit}"


def _passing(forecast: Mapping[str, Any]) -> str:
    """What is said of values that the store does not keep."""
    if not forecast.get("passing_bytes"):
        return ""
    again = ", which run the mechanism anew" if forecast.get("runs_again") else ""
    parts = f", documents in {forecast['parts']} parts{again}" if forecast.get("parts", 1) > 1 else ""
    return f" kept, and {forecast['passing_bytes'] / 1e9:.1f} GB of values that pass{parts}"


def _margin(forecast: Mapping[str, Any]) -> list[str]:
    if not forecast["margin"] or forecast["runs_for_margin"] is None:
        return []
    if forecast["certifiable_margin"] <= forecast["margin"]:
        return [f"          the spec's {forecast['margin']:.2f} is within reach"]
    return [
        f"          the spec's {forecast['margin']:.2f} takes {forecast['runs_for_margin']} runs: set "
        f"`design.with_runs = {forecast['with_runs_for_margin']}`"
        if forecast.get("with_runs_for_margin")
        else f"          the spec's {forecast['margin']:.2f} takes {forecast['runs_for_margin']} runs"
    ]
