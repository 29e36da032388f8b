"""Files of which one bit is another."""

from collections.abc import Iterable, Iterator
from pathlib import Path


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(content))


def flipped(path: Path, bits: Iterable[int]) -> Iterator[int]:
    """Each bit in turn, while that one alone is flipped; the file is whole again after it."""
    whole = path.read_bytes()
    for bit in bits:
        flip(path, bit)
        yield bit
        path.write_bytes(whole)
