"""The protocol file: what parties agree on, where they are, and who they are; unknown keys are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ksdp.audit.numeric.whole_numbers import Whole
from ksdp.audit.specs.models import MechanismSpec, Section, validated

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class FeaturesSpec(Section, frozen=True):
    """Which columns, in which order: a file, or its hash and length where the file is exchanged by another way."""

    vocabulary: str | None = None
    """A file of one term a line, relative to the protocol file."""
    hash: Annotated[str, Field(pattern=r"sha256:[0-9a-f]{64}")] | None = None
    """SHA-256 of the names of all columns (of texts: terms) in their order, a line feed after each."""
    count: Annotated[int, Whole(1)] | None = None
    """How many columns there are; goes with `hash`."""
    rows: Annotated[str, Field(pattern=r"sha256:[0-9a-f]{64}")] | None = None
    """How all make rows: levers, weighting, lengths (`ksdp plan --columns`). Nobody checks it if left out."""

    @model_validator(mode="after")
    def _fits(self) -> FeaturesSpec:
        if (self.hash is None) != (self.count is None):
            raise ValueError("`hash` and `count` go together.")
        if self.vocabulary is None and self.hash is None:
            raise ValueError("`vocabulary`, or `hash` and `count`, must be given.")
        return self


class PrecisionSpec(Section, frozen=True):
    """How reals are written in sums."""

    fraction_bits: Annotated[int, Whole(0, 62)] = 31
    """Binary digits behind the point of every number that is summed."""
    bound: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = None
    """Largest entry of a party's share of a sum; largest norm of one that is normed. Default: the largest power of
    two of which no sum can wrap; 2^20 where sums are normed."""


class TimeoutsSpec(Section, frozen=True):
    """Seconds."""

    present: Seconds = 600.0
    """Until all parties are there."""
    message: Seconds = 600.0
    """Until a peer's next message; longer than the slowest party's slowest step."""
    reconnect: Seconds = 30.0
    """Until a lost connection is back."""


class SharesSpec(Section, frozen=True):
    """Parties that compute on shares, and how: if `mechanism.opens` is "final", or norms are hidden."""

    computing: Annotated[tuple[str, ...], Field(min_length=3, max_length=3)] | None = None
    """The three parties that compute; must be given where there are more."""
    block: Annotated[int, Whole(1)] | None = None
    """Vectors iterated for a final output. Default: 2 rank + 10."""
    rounds: Annotated[int, Whole(1, 1000)] | None = None
    """Iterations for a final output. Default: 22 + rank, from 28 to 56."""


class LeaveSpec(Section, frozen=True):
    """Parties may leave a run of sums with noise, and the others go on."""

    threshold: Annotated[int, Whole(2)]
    """So many parties must stay, more than half. So many together learn every party's share of every sum, with its
    noise; once no more are left, all but one of them learn the last one's. Of n parties, 2 `threshold` - n that
    deviate and cut the connections of others may learn every share, too: with 3 of 5, or 2 of 3, one is enough."""


class PartySpec(Section, frozen=True):
    """One party, or the server."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,54}$")]
    """Its name in the run: letters, digits, dots, hyphens."""
    address: str
    """HOST:PORT at which it listens."""
    key: str
    """Its public key: a `.pub` file relative to the protocol file, or 64 hex digits."""


class EnteringSpec(PartySpec, frozen=True):
    """One party, or the server."""

    enters: Annotated[int, Whole(1)] | None = None
    """It enters at least so many documents (groups, where these are audited). A clearance that was measured among
    documents of honest parties needs it of the others; not for a server."""


class DraftSpec(Section, frozen=True):
    """A run before it is known who takes part."""

    protocol: Literal[1]
    """Version of what is sent."""
    learns: str | None = None
    """The parties' knowledge after the run. It follows from the other keys; `ksdp agree --invite` writes it."""
    mechanism: MechanismSpec
    features: FeaturesSpec
    precision: PrecisionSpec = PrecisionSpec()
    timeouts: TimeoutsSpec = TimeoutsSpec()
    shares: SharesSpec | None = None
    leave: LeaveSpec | None = None


class RunSpec(DraftSpec, frozen=True):
    """A run among parties."""

    parties: Annotated[tuple[EnteringSpec, ...], Field(min_length=2, max_length=64)]
    server: PartySpec | None = None
    """Node that collects, if the mechanism needs one; it holds no documents."""

    @property
    def nodes(self) -> tuple[PartySpec, ...]:
        """The parties, then the server, where there is one."""
        return self.parties if self.server is None else (*self.parties, self.server)

    @model_validator(mode="after")
    def _fits(self) -> RunSpec:
        for what in ("name", "address"):
            addresses = [getattr(node, what) for node in self.nodes]
            if len(set(addresses)) != len(addresses):
                raise ValueError(f"`parties.{what}` must differ from party to party, and from the server's.")
        return self


def parse_run_spec(tables: Mapping[str, Any]) -> RunSpec:
    """Check the tables of a protocol file; `SpecError` as by `validated`."""
    return validated(RunSpec, tables, "protocol file")


def parse_draft(tables: Mapping[str, Any]) -> DraftSpec:
    """Check the tables of a protocol file that names no parties yet; `SpecError` as by `validated`."""
    return validated(DraftSpec, tables, "draft of a protocol file")
