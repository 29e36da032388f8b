"""Which runs take a party in again that was restarted within them, and why others do not."""

from __future__ import annotations

from ksdp.audit.errors import SpecError
from ksdp.protocols.runs.final_terms import opens_final
from ksdp.protocols.runs.programs import needs_norms
from ksdp.protocols.runs.protocol_file import TimeoutsSpec
from ksdp.protocols.runs.run_terms import RunTerms


def why_none_restarts(terms: RunTerms) -> str:
    """Why nobody can be started anew within a run; empty where everybody can."""
    if opens_final(terms.mechanism):
        return "what computes on shares draws randomness of its own, which is not written down"
    if terms.server is not None:
        return "the server's key and its noise are not written down"
    return ""


def seconds_to_restart(terms: RunTerms, times: TimeoutsSpec) -> float:
    """How long others wait for a party that is restarted; 0 where it cannot come back.

    Raises
    ------
    SpecError
        If the protocol file gives seconds, and nobody can.
    """
    why = why_none_restarts(terms)
    if why and times.restart:
        raise SpecError(
            f"`timeouts.restart` must be left out: a party cannot be restarted during this run ({why})."
        )
    if why:
        return 0.0
    if times.restart is not None:
        return times.restart
    # What oblivious transfers bring is gigabytes: they are kept, and computed again, where that is asked for.
    return 0.0 if needs_norms(terms.mechanism) else times.reconnect
