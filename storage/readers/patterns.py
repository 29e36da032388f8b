"""Token patterns of a spec, tried where they can be stopped: some take longer than anybody waits.

The default pattern takes time in proportion to the text. Another one goes over the texts once in a process of its
own, with the same engine, before it is used here; what is slower there than any sensible pattern is refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from ksdp.audit.errors import SpecError
from ksdp.audit.spec import CorpusSpec

_TRY = """
import json, re, sys
pattern, *texts = json.load(sys.stdin)
find = re.compile(pattern).findall
for text in texts:
    find(text.lower())
"""
_SECONDS, _LETTERS_A_SECOND = 10.0, 200_000
"""A sensible pattern reads twenty million."""


def check_pattern(spec: CorpusSpec, texts: Sequence[str]) -> None:
    """Refuse a pattern that takes too long on these texts."""
    if spec.token_pattern == CorpusSpec.model_fields["token_pattern"].default:
        return
    limit = _SECONDS + sum(map(len, texts)) / _LETTERS_A_SECOND
    request = json.dumps([spec.token_pattern, *texts]).encode("ascii")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _TRY], input=request, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise SpecError(
            f"`corpus.token_pattern` takes more than {limit:.0f} s for these texts; does it repeat what repeats?"
        ) from None
    if done.returncode:
        raise SpecError("`corpus.token_pattern` cannot be used on these texts.")
