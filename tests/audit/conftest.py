"""A small corpus with topics, in memory."""

import pytest

from ksdp.audit.corpus.matrix import Corpus

from ..topics import corpus_of_topics


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """90 documents over 40 terms."""
    return corpus_of_topics()
