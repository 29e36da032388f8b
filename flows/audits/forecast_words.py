"""A forecast in words: what would run, what it costs, what it can find and certify, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["forecast_words"]


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
        f"{forecast['bytes'] / 1e9:.1f} GB",
        "          CPU seconds: "
        + ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in forecast["cpu_seconds"].items())
        + " at most",
        f"finds     a leak of advantage {forecast['detectable_D']:.2f}, 8 times in 10, even as the only one",
        f"certifies a margin of {forecast['certifiable_margin']:.2f}, 8 times in 10, where there is no leak",
        *_margin(forecast),
    ]
    if forecast.get("enough"):
        lines.append(f"enough    {forecast['enough']['sentence']}")
    lines += [f"note      {note}" for note in forecast.get("notes", ())]
    if forecast["unread"]:
        lines.append(
            f"unread    {', '.join(forecast['unread'])}: nobody looks at it, so that no document can be clear"
        )
    return "\n".join(lines)


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
