"""One plain line a stage where there is no terminal; units a second and the time left where there is one."""

import io
import time

import pytest
from rich.console import Console

from ksdp.flows.interruption import advance, current
from ksdp.terminal import bars, terminal


def test_a_log_has_one_line_a_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal():
        current().stage("prepare", 1)
        current().stage("sample look-2", 300)
        advance(100)
        current().say("something a person wants to know")
        advance(200)
        current().stage("test", 40)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == [
        "reading the corpus",
        "something a person wants to know",
        "running the mechanism, look 2",
        "testing documents",
    ]
    assert ": 300 runs in 0.0 s" in said[2]
    assert ": 0 of 40 documents in 0.0 s" in said[3]


def test_a_log_has_a_line_wherever_nothing_was_said_for_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksdp.terminal._QUIET", 0.2)
    with terminal():
        current().stage("sample", 802)
        advance(256)
        time.sleep(1.0)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("running the mechanism: 256 of 802 runs after ")
    assert 2 <= len(said) <= 7
    assert said[-1].startswith("running the mechanism: 256 of 802 runs in ")


def test_a_terminal_has_units_a_second_and_the_time_left() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    now = iter(range(1000))
    with bars(console, clock=lambda: float(next(now))):
        current().stage("sample", 300)
        for _ in range(3):
            advance(50)
    shown = console.file.getvalue()
    assert "150/300" in shown
    assert "runs/s" in shown
    assert "0:00:" in shown
