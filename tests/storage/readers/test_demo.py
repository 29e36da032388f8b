from collections import Counter
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import scipy.linalg

from ksdp.storage.readers.demo import _members, docstrings


@pytest.fixture(scope="module")
def documents():
    return docstrings()


def test_there_are_enough_of_each_party(documents):
    sizes = Counter(document.party for document in documents)
    assert set(sizes) == {"numpy", "scipy", "pandas"}
    assert min(sizes.values()) >= 1000
    assert len(documents) >= 3000


def test_ids_are_dotted_public_sorted_and_unique(documents):
    ids = [document.id for document in documents]
    assert ids == sorted(set(ids))
    for document in documents:
        first, *rest = document.id.split(".")
        assert first == document.party
        assert not any(part.startswith("_") for part in rest)
        assert "tests" not in document.id


def test_no_text_occurs_twice(documents):
    assert len({document.text for document in documents}) == len(documents)


@pytest.mark.parametrize(
    ("identity", "doc"),
    [
        ("numpy.linalg.svd", np.linalg.svd.__doc__),  # a function
        ("numpy.arctan2", np.arctan2.__doc__),  # a ufunc
        ("numpy.random.Generator.spawn", np.random.Generator.spawn.__doc__),  # a Cython method
        ("scipy.linalg", scipy.linalg.__doc__),  # a module
        ("pandas.DataFrame.shape", pd.DataFrame.shape.__doc__),  # a property
        ("pandas.DataFrame.head", pd.DataFrame.head.__doc__),  # a method of a private base class
        ("numpy.finfo", np.finfo.__doc__),  # a class
    ],
)
def test_each_kind_of_object(documents, identity, doc):
    texts = {document.id: document.text for document in documents}
    assert texts[identity].split() == doc.split()


def test_what_varies_from_process_to_process_is_taken_out():
    module = ModuleType("numpy")
    module.__doc__ = "Words {'b', 'a'}\n\n>>> draw()\narray([0.1, 0.2])  # may vary\nmore words"
    exec("def shown(f=0):\n    '<function f at 0x7f00aa>'\ndef kept():\n    'Kept {1, 2}.'", vars(module))
    assert dict(_members(module, "numpy")) == {
        "numpy": "Words {'a', 'b'}\n\n>>> draw()\nmore words",
        "numpy.kept": "Kept {1, 2}.",
    }
    module.kept.__module__ = "elsewhere"
    assert dict(_members(module, "numpy")).keys() == {"numpy"}
