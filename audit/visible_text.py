"""Letters that change what is read without being seen: U+202E turns the rest of a line around."""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories: controls, formats, surrogates, private, unassigned, line and paragraph separators."""


def is_unseen(letter: str) -> bool:
    """Whether a letter is one of them.

    >>> is_unseen("\u202e"), is_unseen("ß")
    (True, False)
    """
    return unicodedata.category(letter) in _UNSEEN


def visible(text: str, *, lines: bool = False) -> str:
    """A text with whatever is not seen written as its number; with `lines`, line breaks and tabs stay.

    >>> visible("keep\u202egnihton")
    'keep<U+202E>gnihton'
    """
    allowed = "\n\t" if lines else ""
    return "".join(
        f"<U+{ord(letter):04X}>" if is_unseen(letter) and letter not in allowed else letter for letter in text
    )
