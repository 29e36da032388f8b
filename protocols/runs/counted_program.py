"""One party of a run that agrees on its vocabulary by counts of documents, then runs another mechanism on that.

The first request is one secure sum of the party's counts. Everybody derives the same columns from the answer,
takes them of its rows, and goes on with the other mechanism's program. A normed sum is as wide as the candidates,
because its width is agreed on before the counts are known; it is of zeros in the columns that went.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.counted import Counted, document_counts, widened
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.party_side import NormedSecSum, PartyProgram, PartyResult, Request, SecSum, answered
from ksdp.audit.statistics.linear.counts import DOCUMENT_COUNTS, KEPT_COLUMNS
from ksdp.protocols.runs.pd_nmf_program import nmf_program
from ksdp.protocols.runs.pd_svd_program import svd_program

_EXACT = 0.25
"""No sum of whole numbers is further from one: the grid is finer."""


def counted_program(mechanism: Counted, matrix: sp.csr_array) -> PartyProgram:
    """One party of `Counted`.

    Parameters
    ----------
    mechanism : Counted
        Public, the same at every party.
    matrix : canonical CSR, shape (n, d)
        This party's rows, in the columns of all candidates.

    Returns
    -------
    PartyProgram
        Ends with `document_counts`, `kept_columns` and what the other mechanism ends with, in the columns of all
        candidates.

    Raises
    ------
    CorpusError
        If too few columns are left for the other mechanism.
    ProtocolError
        If a count is no whole number of at least 0.

    Examples
    --------
    >>> from ksdp.audit.mechanisms.party_side import drive
    >>> rows = sp.csr_array(np.diag([3.0, 2.0, 1.0])) + sp.csr_array(np.eye(3, k=1))
    >>> mechanism = Counted("pd-svd", at_least=2, parameters={"rank": 1, "solver": "power"})
    >>> one, other = drive([counted_program(mechanism, rows[:1]), counted_program(mechanism, rows[1:])])
    >>> one.public["document_counts"], np.abs(one.public["V"]).round(3)
    (array([1., 2., 2.]), array([[0.   , 0.894, 0.447]]))
    """
    answer = np.asarray((yield SecSum(document_counts(matrix))))
    counts = np.rint(answer)
    if (np.abs(answer - counts) > _EXACT).any() or (counts < 0).any():
        raise ProtocolError(
            "The announced counts of documents are no whole numbers of at least 0: the run is void."
        )
    counts += 0.0  # -0.0 is 0.0
    kept = mechanism.kept(counts)
    narrow = matrix[:, kept]
    inner: Any = mechanism.inner
    program = (
        nmf_program(inner, narrow, (np.flatnonzero(kept), len(kept)))
        if isinstance(inner, PDNMF)
        else svd_program(inner, narrow)
    )
    result = yield from answered(program, _as_wide(kept))
    # What a run ends with is less than what an audit looks at, so that it is found among that by its names.
    public = {DOCUMENT_COUNTS: counts, KEPT_COLUMNS: kept.astype(np.float64)}
    return PartyResult(public | widened(inner, result.public, kept), result.own)


def _as_wide(kept: NDArray[np.bool_]) -> Callable[[Request], Generator[Any, Any, Any]]:
    """Requests of a program on the columns that are kept, its normed sums as wide as the candidates."""

    def answer(request: Request) -> Generator[Any, Any, Any]:
        if not isinstance(request, NormedSecSum):
            return (yield request)
        wide = np.zeros((len(request.share), len(kept)))
        wide[:, kept] = request.share
        return np.asarray((yield NormedSecSum(wide)))[:, kept]

    return answer
