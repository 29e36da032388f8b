"""Results are written whole and never over others; a transcript is there line by line."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import InputError
from ksdp.storage.runs.results import Transcript, require_no_result, write_run

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_comes_back_as_it_was(tmp_path: Path) -> None:
    T = np.arange(6.0).reshape(2, 3)
    write_run(tmp_path / "out", {"T": T}, {"ids": np.array(["a", "ü"])}, {"me": "ada"})
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "result.npz")["T"], T)
    assert np.load(tmp_path / "out" / "own.npz")["ids"].tolist() == ["a", "ü"]
    assert json.loads((tmp_path / "out" / "run.json").read_text()) == {"me": "ada"}
    with pytest.raises(InputError, match="holds the result of a run already"):
        require_no_result(tmp_path / "out")


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        require_no_result(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written to"):
        Transcript(tmp_path / "file" / "below", lambda: NOW)
    require_no_result(tmp_path / "nothing there")


def test_a_transcript_can_be_read_while_it_grows_and_goes_on_after_an_earlier_one(tmp_path: Path) -> None:
    for run in range(2):
        with Transcript(tmp_path / "out", lambda: NOW) as transcript:
            transcript.note(what="sent", peer="ü", bytes=run)
            lines = (tmp_path / "out" / "transcript.jsonl").read_text(encoding="utf-8").splitlines()
            assert len(lines) == run + 1
            assert json.loads(lines[-1]) == {"time": NOW.isoformat(), "what": "sent", "peer": "ü", "bytes": run}
    require_no_result(tmp_path / "out")
