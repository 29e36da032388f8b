"""One protocol file, signed by all: what changed since is named; a stranger's file hurts nobody."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ksdp.audit.errors import InputError, KsdpError, SpecError
from ksdp.cli import application
from ksdp.flows.runs.protocol_files import read_protocol_file, read_run, require_typed
from ksdp.storage.files import toml_value
from ksdp.storage.keys import load_private, make_identity

NAMES = ("ada", "bob", "cyd")
DRAFT = """protocol = 1

[mechanism]  # as audited
name = "pd-nmf"
rank = 2

[features]
vocabulary = "words.txt"
"""


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    for name in NAMES:
        make_identity(tmp_path, name)
    (tmp_path / "words.txt").write_text("one\ntwo\nthree\n")
    path = tmp_path / "protocol.toml"
    path.write_text(DRAFT)
    return path


def ksdp(path: Path, me: str, *options: str, code: int = 0, key: str = "") -> str:
    command = "party" if "--uncleared" in options else "agree"
    given = [command, str(path), "--me", me, "--key", str(path.parent / f"{key or me}.key"), *options]
    done = CliRunner().invoke(application(command), given)
    if code:
        assert isinstance(done.exception, KsdpError | SystemExit), done.output
        return f"{done.output}{done.exception}"
    assert done.exception is None, done.output
    return done.output


def joined(path: Path) -> Path:
    for at, name in enumerate(NAMES):
        ksdp(path, name, "--join", f"{name}.example:{7001 + at}")
    return path


def signed(path: Path) -> Path:
    ksdp(joined(path), "ada", "--invite")
    for name in ("bob", "cyd"):
        ksdp(path, name, "--accept", "--fingerprint", read_protocol_file(path).fingerprint)
    return path


def test_three_agree_on_one_file_that_runs(draft: Path) -> None:
    assert "is signed by all: ada, bob, cyd" in ksdp(signed(draft), "ada", "--invite")
    run = read_run(draft)
    run.file.require_signed()
    assert [node.name for node in run.terms.nodes] == list(NAMES)
    assert "# as audited" in draft.read_text(), "comments stay"
    assert len(run.file.fingerprint.replace("-", "")) == 40


def test_the_signed_file_says_first_who_learns_what(draft: Path) -> None:
    text = signed(draft).read_text()
    assert text.startswith('learns = "Every round is opened: all parties see every sum. Any 2 of the 3 parties')
    draft.write_text(text.replace("Any 2 of the 3", "No 2 of the 3"))
    with pytest.raises(SpecError, match="`learns` must be what follows"):
        read_run(draft)
    ksdp(draft, "bob", "--accept", "--fingerprint", read_protocol_file(draft).fingerprint, code=2)
    ksdp(draft, "ada", "--invite")
    assert draft.read_text() == text, "with the signatures of all"


def test_two_organisations_sign_that_each_learns_the_others_input(draft: Path) -> None:
    for at, name in enumerate(NAMES[:2]):
        ksdp(draft, name, "--join", f"{name}.example:{7001 + at}")
    ksdp(draft, "ada", "--invite")
    words = "Two parties: each learns the other's input exactly"
    assert words in draft.read_text().splitlines()[0]
    assert words in ksdp(draft, "bob", "--accept", "--fingerprint", read_protocol_file(draft).fingerprint)
    ksdp(draft, "cyd", "--join", "cyd.example:7003")
    assert "`learns` must be" in ksdp(draft, "cyd", "--accept", "--fingerprint", "x", code=2), "they are three now"
    ksdp(draft, "ada", "--invite")
    assert words not in draft.read_text()


def test_parties_may_join_and_sign_copies(draft: Path) -> None:
    """Each gets the file from whoever invites, and hands its own copy back."""
    copies = {name: draft.with_name(f"{name}.toml") for name in ("bob", "cyd")}
    for name, copy in copies.items():
        copy.write_text(DRAFT)
        ksdp(copy, name, "--join", f"{name}.example:7001")
    ksdp(draft, "ada", "--join", "ada.example:7001", *(f"--copy={copy}" for copy in copies.values()))
    ksdp(draft, "ada", "--invite")
    for name, copy in copies.items():
        copy.write_text(draft.read_text())
        ksdp(copy, name, "--accept", "--fingerprint", read_protocol_file(draft).fingerprint)
    assert "signed by all: ada, bob, cyd" in ksdp(draft, "ada", *(f"--copy={copy}" for copy in copies.values()))
    other = draft.with_name("other.toml")
    other.write_text(draft.read_text().replace("rank = 2", "rank = 3"))
    assert "`mechanism.rank` is 3, 2 here" in ksdp(draft, "ada", f"--copy={other}", code=2)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rank = 2", "rank = 3", "`mechanism.rank` is 3 now"),
        ("rank = 2", "rank = 2\nsweeps = 7", "`mechanism.sweeps` is 7 now"),
        ("rank = 2\n", "", "1 that it has signed are gone"),
        ("bob.example:7002", "mallory.example:7002", '`parties.bob.address` is "mallory.example:7002" now'),
        ("[features]", "[timeouts]\nmessage = 5\n[features]", "`timeouts.message` is 5 now"),
    ],
)
def test_a_changed_line_needs_new_signatures_and_is_named(draft: Path, old: str, new: str, said: str) -> None:
    text = signed(draft).read_text()
    assert old in text
    draft.write_text(text.replace(old, new))
    for name in NAMES:
        assert f"{name} has signed other lines: {said}" in "; ".join(read_protocol_file(draft).faults())
    refused = ksdp(draft, "ada", "--uncleared", "--corpus", "x", "--out", "out", code=2)
    assert said in refused, "no run before that"
    assert f"ksdp agree {draft.name} --me NAME --key NAME.key --accept" in refused
    ksdp(draft, "ada", "--invite")
    (bob, cyd) = read_protocol_file(draft).faults()
    assert (bob[:3], cyd[:3]) == ("bob", "cyd")


def test_a_changed_vocabulary_or_key_file_is_a_changed_line(draft: Path) -> None:
    signed(draft)
    (draft.parent / "words.txt").write_text("one\nthree\ntwo\n")
    assert "`features.vocabulary` is sha256:" in read_protocol_file(draft).faults()[0]
    text = draft.read_text()
    keys = [load_private(draft.parent / f"{name}.key").public_key().public_bytes_raw().hex() for name in NAMES]
    draft.write_text(text.replace(keys[1], "bob.pub"))
    (draft.parent / "words.txt").write_text("one\ntwo\nthree\n")
    assert read_protocol_file(draft).faults() == (), "the same key, by its file"
    (draft.parent / "bob.pub").write_bytes((draft.parent / "cyd.pub").read_bytes())
    assert "`parties.bob.key` is" in read_protocol_file(draft).faults()[0]


def test_a_wrong_fingerprint_is_not_answered_with_the_right_one(draft: Path) -> None:
    ksdp(joined(draft), "ada", "--invite")
    file = read_protocol_file(draft)
    for typed in ("", "0000", file.fingerprint[:39], "1" * 40, file.fingerprint + "0"):
        said = ksdp(draft, "bob", "--accept", "--fingerprint", typed or " ", code=2)
        assert "is not the fingerprint" in said
        assert file.fingerprint not in said
        assert file.content[:40] not in said
    require_typed(f" {file.fingerprint.upper().replace('-', ' ')} ", file)


def test_nobody_signs_for_another(draft: Path) -> None:
    joined(draft)
    assert "does not name this key for bob" in ksdp(draft, "bob", "--invite", code=2, key="cyd")
    assert "does not name this key for dan" in ksdp(draft, "dan", "--invite", code=2, key="cyd")
    for name in NAMES:
        read_protocol_file(draft).sign(name, load_private(draft.parent / f"{name}.key"))
    text = draft.read_text()
    blocks = text.split("[[signatures]]")
    forged = blocks[2].replace('"bob"', '"cyd"'), blocks[3].replace('"cyd"', '"bob"')
    draft.write_text("[[signatures]]".join([*blocks[:2], *forged]))
    assert len(read_protocol_file(draft).faults()) == 2
    draft.write_text(text + blocks[1].join(["[[signatures]]", ""]).replace('"ada"', '"dan\\u001b"'))
    (fault,) = read_protocol_file(draft).faults()
    assert fault == "dan\\u001b is no party, and has signed it"


def test_who_is_in_the_file_does_not_join_again(draft: Path) -> None:
    assert "bob is in protocol.toml" in ksdp(joined(draft), "bob", "--join", "elsewhere:7001", code=2)
    assert "HOST:PORT" in ksdp(draft, "dan", "--join", "elsewhere", code=2, key="cyd")
    ksdp(draft, "hub", "--join", "hub.example:7009", "--server", key="cyd")
    assert "a server is in protocol.toml" in ksdp(draft, "hub2", "--join", "x:7010", "--server", code=2, key="cyd")


def test_signatures_stand_last(draft: Path) -> None:
    text = signed(draft).read_text()
    for more, fault in ("\n[timeouts]\nmessage = 5\n", "stand last"), ("[[signatures]]\nname = 3\n", "cannot"):
        draft.write_text(text + more)
        with pytest.raises(KsdpError, match=fault):
            read_protocol_file(draft)


@pytest.mark.parametrize("named", ["../words.txt", "/etc/passwd", "a/../../words.txt", "link.txt"])
def test_a_file_names_nothing_outside_its_folder(draft: Path, named: str) -> None:
    """Its hash would go to all peers."""
    (inner := draft.parent / "inner").mkdir()
    (inner / "link.txt").symlink_to("/etc/passwd")
    path = inner / "protocol.toml"
    joined(draft)
    path.write_text(draft.read_text().replace("words.txt", named))
    for read in (read_run, lambda p: read_protocol_file(p).lines):
        with pytest.raises(KsdpError, match="in the folder of the protocol file"):
            read(path)


@pytest.mark.parametrize("kind", ["device", "pipe", "long", "folder"])
def test_a_key_that_is_no_small_file_is_refused_at_once(draft: Path, kind: str) -> None:
    joined(draft)
    key = draft.parent / "odd.pub"
    if kind == "pipe":
        os.mkfifo(key)
    elif kind == "folder":
        key.mkdir()
    elif kind == "long":
        key.write_bytes(b"-" * (1 << 20))
    named = "odd.pub" if kind != "device" else "/dev/zero"
    mine = load_private(draft.parent / "bob.key").public_key().public_bytes_raw().hex()
    draft.write_text(draft.read_text().replace(mine, named))
    with pytest.raises(InputError, match=r"odd.pub cannot be read|in the folder of the protocol file"):
        read_run(draft)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just("\x1b[31m")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_senseless_file_is_refused_and_moves_no_terminal(data: st.DataObject, draft: Path) -> None:
    keys = ["parties", "server", "signatures", "features", "mechanism", "protocol", "\x1b[31m", "pem"]
    tables = data.draw(st.dictionaries(st.sampled_from(keys), values, max_size=4))
    path = draft.with_name("odd.toml")
    lines = [f'"{key}" = {toml_value(one)}' for key, one in tables.items() if one is not None]
    path.write_text("\n".join(lines).replace("\x1b", "\\u001b"))
    try:
        file = read_protocol_file(path)
        assert "\x1b" not in file.words + "".join(file.faults())
        file.join("dan", "dan.example:7001", load_private(draft.parent / "ada.key").public_key(), server=False)
    except KsdpError as error:
        assert "\x1b" not in str(error)  # noqa: PT017 - whatever else is raised fails the test


def test_a_table_that_no_run_takes_is_refused_before_anybody_signs(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Age\n30\n")
    text = '[corpus]\npath = "t.csv"\ncolumns = ["age"]\n[mechanism]\nname = "moments"\nadvantage = 0.5\n'
    (spec := tmp_path / "t.toml").write_text(text)
    done = CliRunner().invoke(application("plan"), ["plan", str(spec), "--columns", str(spec.with_name("c"))])
    assert "no column `age`" in str(done.exception)
