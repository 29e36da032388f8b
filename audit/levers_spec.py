"""Settings of a corpus that trade gain for leak: what parties agree on before anybody looks at data."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ksdp.audit.spec_tables import Section
from ksdp.audit.urls import FileName

_Count = Annotated[int, Field(ge=1)]


class LeversSpec(Section, frozen=True):
    """Applied in this order: terms, most frequent, units, hashed; then the weighting; then basis, clip.

    The same keys make the rows of an audit and of a run. Files are public: they must not come from the documents.
    """

    terms: FileName | None = None
    """A public list of columns to keep, one a line; the corpus must say its columns' names."""
    reference: FileName | None = None
    """Public document frequencies: a first line `documents<TAB>N`, then `term<TAB>documents` a line. Columns that
    it does not hold go. It decides `most_frequent`, and the weights where `idf = "public"`."""
    most_frequent: _Count | None = None
    """Keep the columns that most documents hold: of the reference, or of this very corpus where there is none. The
    choice is then announced and nobody protects or audits it, so that no run among parties takes it: the mechanism
    `counted` announces counts of documents, which are audited."""
    units: FileName | None = None
    """Public centre and scale of every column of a table: a CSV with `column,centre,scale`."""
    hashed: _Count | None = None
    """Add up columns by a public hash of their names into so many."""
    basis: FileName | None = None
    """A public basis (npy, one row a column that is left, r orthonormal columns): rows become their r products."""
    directions: _Count | None = None
    """Of the basis, the first so many."""
    clip: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Rows longer than this are scaled down to it."""
    drawn: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Every party enters a secret draw of its documents alone: each with this chance, decided once and for all
    runs by the party's private key. Sizes are then of what enters a run, `decision.margin` is of what is held."""

    @property
    def enters(self) -> float:
        """The share of a party's documents that enters a run; 1 where there is no draw."""
        return 1.0 if self.drawn is None else self.drawn

    @property
    def any(self) -> bool:
        """Whether one is set that makes other columns or rows."""
        return any(value is not None for name, value in self.model_dump().items() if name != "drawn")

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `drawn` where it is not set: hashes of what was agreed before there was such a key stay."""
        tables: dict[str, Any] = write(self)
        return {name: value for name, value in tables.items() if name != "drawn" or value is not None}
