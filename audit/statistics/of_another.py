"""What a statistic that is made of another has from it."""

from __future__ import annotations

from ksdp.audit.statistics.contract import Statistic


class OfAnother:
    """A statistic of `statistic`: it reads the same arrays and knows the same, unless it says otherwise."""

    statistic: Statistic

    @property
    def version(self) -> int:
        """That of the other statistic: what this one makes of it does not change."""
        return self.statistic.version

    @property
    def needs(self) -> tuple[str, ...]:
        """Arrays that must be announced."""
        return self.statistic.needs

    @property
    def needs_any(self) -> tuple[str, ...]:
        """Arrays of which one must be announced."""
        return tuple(getattr(self.statistic, "needs_any", ()))

    @property
    def needs_background(self) -> tuple[str, ...]:
        """What the adversary must know besides."""
        return tuple(getattr(self.statistic, "needs_background", ()))

    @property
    def reads(self) -> tuple[str, ...]:
        """Further arrays, where they are announced."""
        return tuple(getattr(self.statistic, "reads", ()))
