"""Files that are damaged at random."""

from __future__ import annotations

import random
from collections.abc import Sequence


def mutated(content: bytes, rng: random.Random, pieces: Sequence[bytes]) -> bytes:
    """Cuts, flips, inserts, repeats or swaps bytes, a few times; `pieces` may trip a reader."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                del data[at:]
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 3:
                del data[at : at + rng.randrange(1, 50)]
            case 4:
                data[at:at] = data[at : at + rng.randrange(1, 99)]
            case 5:
                data[at : at + 4] = rng.choice(pieces)
            case 6:
                data[at:at] = rng.choice(pieces)
    return bytes(data)
