"""The text of a document, from wherever its owner keeps it: a program that is given one id and answers once."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from ksdp.audit.errors import StoreError


@dataclass(frozen=True)
class TextCommand:
    """A program that reads an id (UTF-8, no line break after it) on standard input and writes the text.

    No shell is between, and the id is no argument: whatever it holds, it is data. What the program says on
    standard error is not shown, because it may hold the text.
    """

    command: tuple[str, ...]
    seconds: float = 10.0
    """Time it has."""
    most: int = 100_000
    """Characters that are shown."""

    def __call__(self, audit: str, document: str) -> str:
        """Fetch the text.

        Raises
        ------
        StoreError
            If the program fails, takes too long, or is not there.
        """
        try:
            done = subprocess.run(
                self.command, input=document.encode(), capture_output=True, timeout=self.seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise StoreError(f"the resolver did not answer within {self.seconds:g} s.") from None
        except OSError as error:
            raise StoreError(f"the resolver cannot be run: {error.strerror}.") from None
        if done.returncode:
            raise StoreError(f"the resolver has no text for this document (exit code {done.returncode}).")
        text = done.stdout.decode("utf-8", "replace")
        return text if len(text) <= self.most else text[: self.most] + "\n[cut]"
