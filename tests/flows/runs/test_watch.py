"""What a run tells while it goes on, scraped from a real port."""

from __future__ import annotations

from ksdp.flows.metrics_port import serve_metrics
from ksdp.flows.runs.party import RunLog

from ..scraped import scrape


def test_a_run_is_seen_while_it_goes_on() -> None:
    now = [0.0]
    lines: list[str] = []
    log = RunLog(lines.append, lambda: now[0])
    with serve_metrics(log, 0) as port:
        log.note(what="run", me="ada", agreement="x")
        log.note(what="waiting", peers=["bob", "cyd"])
        log.note(what="connected", peer="bob")
        assert lines == ["bob connected; not connected: cyd"]
        seen = scrape(port)
        assert seen["ksdp_party_state", "waiting"] == 1
        assert (seen["ksdp_party_connected", "bob"], seen["ksdp_party_connected", "cyd"]) == (1, 0)
        log.note(what="connected", peer="cyd")
        log.note(what="all present")
        for number in range(3):
            now[0] += 4.0
            for peer, size in (("bob", 100), ("cyd", 50)):
                log.note(what="sent", kind="sum", round=number, peer=peer, bytes=size)
                log.note(what="received", kind="sum", round=number, peer=peer, bytes=2 * size)
        log.note(what="lost", peer="cyd")
        log.note(what="reconnected", peer="cyd")
        seen = scrape(port)
        assert seen["ksdp_party_state", "running"] == 1
        assert seen["ksdp_party_rounds_total",] == 3
        assert seen["ksdp_party_bytes_total", "bob", "sent"] == 300
        assert seen["ksdp_party_bytes_total", "cyd", "received"] == 300
        assert seen["ksdp_party_lost_connections_total", "cyd"] == 1
        assert seen["ksdp_party_connected", "cyd"] == 1
        assert seen["ksdp_party_seconds",] == 12
        log.note(what="done", session="x", result="y")
        assert scrape(port)["ksdp_party_state", "done"] == 1
    assert lines[-2:] == ["8 s: round 2 (sum), 0.0 MB", "cyd lost; not connected: cyd"]
