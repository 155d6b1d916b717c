"""Draw noisy images of digits, so that the demos need neither a download nor another package."""

from __future__ import annotations

from typing import Any

import numpy as np

IMAGES, TRAINING = 1797, 1437
"""How many images there are, and how many of them are for training."""
# Of each digit seven rows of five points, one bit a point.
_GLYPHS = (
    "0e11131519110e", "040c040404040e", "0e11010204081f", "1f02040201110e", "02060a121f0202",
    "1f101e0101110e", "0608101e11110e", "1f010204080808", "0e11110e11110e", "0e11110f01020c",
)  # fmt: skip
_NOISE = 0.2


def digits() -> tuple[Any, Any]:
    """Return 1,797 images of 8 x 8, between 0 and 1, and the digits that they show.

    They are always the same: digits somewhere in their image, bright or faint, with noise.
    """
    random = np.random.default_rng(0)
    rows = np.array([list(bytes.fromhex(glyph)) for glyph in _GLYPHS])
    glyphs = (rows[:, :, None] >> np.arange(4, -1, -1)) & 1
    labels = random.integers(0, 10, IMAGES)
    images = np.zeros((IMAGES, 8, 8))
    places = zip(random.integers(0, 2, IMAGES), random.integers(0, 4, IMAGES), strict=True)
    for image, label, (down, right) in zip(images, labels, places, strict=True):
        image[down : down + 7, right : right + 5] = glyphs[label]
    images *= random.uniform(0.5, 1, (IMAGES, 1, 1))
    images += random.normal(0, _NOISE, images.shape)
    return images.clip(0, 1).astype(np.float32), labels.astype(np.int32)
