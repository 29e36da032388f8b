"""What the paper's statistics for PD-SVD share: a reduction by name, with sigma hidden or revealed."""

from __future__ import annotations

from dataclasses import dataclass

BACKGROUND = ("adversary_sigma", "adversary_rows", "victim_rows")
"""What the hidden forms need of `Documents.background`."""


@dataclass(frozen=True)
class SvdForm:
    """A reduction of W or D by name, with sigma hidden or revealed."""

    form: str
    revealed: bool = False
    version: int = 1
    family: str = "paper"

    @property
    def name(self) -> str:
        """`form`, with the suffix `-revealed` where sigma is announced."""
        return f"{self.form}-revealed" if self.revealed else self.form

    @property
    def needs(self) -> tuple[str, ...]:
        """Observables it reads."""
        return ("V", "sigma") if self.revealed else ("V",)

    @property
    def needs_background(self) -> tuple[str, ...]:
        """What it reads of the adversary's background; without it `evaluate` raises InputError."""
        return () if self.revealed else BACKGROUND
