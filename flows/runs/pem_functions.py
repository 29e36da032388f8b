"""PEM functions of one's own: an object in a local file, which a person names and no file that travels does."""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class OwnFunctions:
    """Three functions, and the file that they are in."""

    algorithm: PemAlgorithm
    code: str
    """`sha256:` of the file."""


def load_functions(path: str, folder: Path) -> OwnFunctions:
    """Import `module:object`, looked for in a folder and where Python looks.

    The object has the three functions, or is a class that needs no arguments and has them. Its `repr` is what
    hosts compare, with a hash of its file: so it must say all parameters, as that of a dataclass does.
    """
    if not _PATH.fullmatch(path):
        raise SpecError(f"`--functions` must be module:object; got {path!r}.")
    module, _, attribute = path.partition(":")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # processes of this machine inherit it
    try:
        found = importlib.import_module(module)
        made: Any = getattr(found, attribute)
        if isinstance(made, type):
            made = made()
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        told = " ".join(str(error).split())[:200]
        raise SpecError(f"`--functions` {path!r} cannot be used: {type(error).__name__}: {told}") from error
    if not isinstance(made, PemAlgorithm):
        wanted = "`name`, `init`, `map_in_client` and `reduce_in_aggregator`"
        raise SpecError(f"`--functions` {path!r} must have {wanted}.")
    if re.search(r" at 0x[0-9a-f]+", repr(made)):
        raise SpecError(f"`--functions` {path!r} must say its parameters in `repr`: make it a frozen dataclass.")
    if found.__file__ is None:
        raise SpecError(f"`--functions` {path!r} must be in a file.")
    digest = hashlib.sha256(Path(found.__file__).read_bytes()).hexdigest()
    return OwnFunctions(made, f"sha256:{digest}")
