"""A pseudo-random order of any number of things, computed where it is asked for and stored nowhere.

It is a Feistel network, as block ciphers are, over numbers below any size (Black and Rogaway, 2002,
"Ciphers with Arbitrary Finite Domains").
"""

import math

import numpy as np

ROUNDS = 6  # four make a Feistel network pseudo-random (Luby and Rackoff, 1988)


def permute(indices: np.ndarray, size: int, key: tuple[int, ...]) -> np.ndarray:
    """Returns the places of `indices` in a random order of 0 to size - 1, as int64.

    indices: any of the numbers from 0 to size - 1. key: chooses the order.

    A number x is written as two digits, left = x // b and right = x % b, with a possible left and b
    possible right digits, where a·b is at least `size`. A round adds a hash of one digit to the
    other one, which can be undone, so that different numbers stay different. A result that is not
    below `size` goes through the rounds again, until it is ("cycle walking"). For size 7, a = 3 and
    b = 3; x = 5 has the digits 1 and 2:

        left  + hash(right)   1 + 4 = 2 (mod 3)
        right + hash(left)    2 + 3 = 2 (mod 3)     x = 2·3 + 2 = 8, which is not below 7: again
    """
    num_left = math.isqrt(size - 1) + 1
    num_right = -(-size // num_left)
    keys = np.random.default_rng(key).integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)
    places = np.array(indices, np.uint64)
    walking = np.arange(places.size)
    while len(walking):
        left, right = np.divmod(places[walking], np.uint64(num_right))
        for left_key, right_key in keys:
            left = (left + mix(right ^ left_key) % np.uint64(num_left)) % np.uint64(num_left)
            right = (right + mix(left ^ right_key) % np.uint64(num_right)) % np.uint64(num_right)
        places[walking] = left * np.uint64(num_right) + right
        walking = walking[places[walking] >= size]
    return places.astype(np.int64)


def mix(x: np.ndarray) -> np.ndarray:
    """Mixes the bits of 64-bit numbers, as the generator SplitMix64 does."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
