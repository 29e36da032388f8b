"""What a form does: record decisions, fetch a text, pause a schedule, sign in. Every write names its reviewer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

from ksdp.dashboards.addresses import whole_number
from ksdp.storage.errors import InputError, KsdpError
from ksdp.storage.reviews.decisions import Decision, Entry, Proposal, append
from ksdp.storage.reviews.document_text import record_access
from ksdp.storage.store import Store

_FIELDS = 20_000

Resolve = Callable[[str, str], str]
MoreRuns = Callable[[str], str]


@dataclass(frozen=True)
class Actions:
    """What the pages can have done outside the store; None where it was not configured."""

    resolve: Resolve | None = None
    """Text of a document: (audit, document) -> text; a `KsdpError` where there is none."""
    more_runs: MoreRuns | None = None
    """Begin the more runs that are decided for documents of an audit: audit -> what was begun, in a sentence."""
    clock: Callable[[], datetime] = datetime.now


@dataclass(frozen=True)
class Form:
    """What was sent."""

    values: dict[str, list[str]]

    def one(self, name: str, default: str = "") -> str:
        """The only value of a field."""
        values = self.values.get(name, [default])
        if len(values) != 1:
            raise InputError(f"`{name}` was sent {len(values)} times.")
        return values[0]

    def all(self, name: str) -> list[str]:
        """All values of a field."""
        return self.values.get(name, [])


async def read_form(request: Request) -> Form:
    """Read a urlencoded body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("A form must be sent as application/x-www-form-urlencoded.")
    try:
        body = (await request.body()).decode("ascii")
        return Form(parse_qs(body, keep_blank_values=True, strict_parsing=bool(body), max_num_fields=_FIELDS))
    except ValueError as error:
        raise InputError("The form cannot be read.") from error


def safe_path(text: str, default: str) -> str:
    """An address of ours to go on to; the default for anything that is not one.

    >>> safe_path("/queue?page=2", "/"), safe_path("//elsewhere", "/"), safe_path("https://elsewhere/", "/")
    ('/queue?page=2', '/', '/')
    """
    parts = urlsplit(text)
    ours = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if ours and not parts.scheme and not parts.netloc else default


def record(store: Store, audit: str, form: Form, reviewer: str, actions: Actions) -> tuple[list[Entry], str]:
    """Record what a form decides about one document or several: (entries, what was begun, or nothing).

    Each `document` has a `saw` of the same place; where boxes were ticked, only those (`chosen`) are meant.
    """
    try:
        decision = Decision(form.one("decision"))
    except ValueError as error:
        raise InputError("Choose what is decided.") from error
    documents, saw = form.all("document"), form.all("saw")
    if len(documents) != len(saw):
        raise InputError("Each `document` must have a `saw`.")
    pairs = dict(zip(documents, saw, strict=True))
    if form.one("boxes") == "1":
        pairs = {document: pairs[document] for document in form.all("chosen") if document in pairs}
    if not pairs:
        raise InputError("Choose at least one document.")
    reason = form.one("reason").replace("\r\n", "\n")
    proposals = [
        Proposal(audit, document, decision, reason, reviewer, whole_number(version, "saw"))
        for document, version in pairs.items()
    ]
    entries = append(store, proposals, actions.clock())
    return entries, begin_runs(audit, actions) if decision is Decision.MORE_RUNS else ""


def begin_runs(audit: str, actions: Actions) -> str:
    """Begin more runs, or say how a person does; the decisions stand in the log whatever becomes of it."""
    if actions.more_runs is None:
        return f"`ksdp more {audit}` runs them."
    try:
        return actions.more_runs(audit)
    except KsdpError as error:
        return f"More runs could not be started: {error}"


def resolve_text(store: Store, audit: str, document: str, reviewer: str, actions: Actions) -> str:
    """Fetch the text of a document, after logging the access."""
    if actions.resolve is None:
        raise LookupError("No resolver of texts is configured.")
    record_access(store, audit, document, reviewer, actions.clock())
    return actions.resolve(audit, document)
