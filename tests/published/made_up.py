"""Make up small data in the formats that published programs read, so that nothing is downloaded."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

TRAINED, TESTED = 1024, 128


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return real digits as MNIST has them: uint8 of shape (n, 28, 28), and their labels."""
    images, labels = load_digits(return_X_y=True)
    wide = np.kron((images * 15.9).reshape(-1, 8, 8), np.ones((3, 3))).astype(np.uint8)
    return np.pad(wide, ((0, 0), (2, 2), (2, 2))), labels.astype(np.uint8)


def write_mnist(folder: Path) -> None:
    """Write MNIST's four files where torchvision looks for them."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    images, labels = digits()
    for name, part in (
        ("train", slice(TRAINED)),
        ("t10k", slice(TRAINED, TRAINED + TESTED)),
    ):
        some, theirs = images[part], labels[part]
        head = struct.pack(">iiii", 2051, len(some), 28, 28)
        (raw / f"{name}-images-idx3-ubyte").write_bytes(head + some.tobytes())
        head = struct.pack(">ii", 2049, len(theirs))
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(head + theirs.tobytes())


def write_chainer_mnist(folder: Path) -> None:
    """Write MNIST into Chainer's cache of data sets."""
    home = folder / "pfnet" / "chainer" / "mnist"
    home.mkdir(parents=True, exist_ok=True)
    images, labels = digits()
    for name, part in (("train", slice(TRAINED)), ("test", slice(TRAINED, TRAINED + TESTED))):
        np.savez(home / f"{name}.npz", x=images[part].reshape(-1, 784), y=labels[part])


def write_images(folder: Path, number: int) -> None:
    """Write made-up photographs of two classes, as ImageFolder reads them."""
    draw = np.random.default_rng(0)
    for kind in range(2):
        home = folder / f"kind{kind}"
        home.mkdir(parents=True, exist_ok=True)
        for n in range(number // 2):
            pixels = draw.integers(0, 128, (64, 64, 3)) + 100 * kind
            Image.fromarray(pixels.astype(np.uint8)).save(home / f"{n}.png")


def write_text(path: Path, words: int, seed: int = 0) -> None:
    """Write sentences of few words, which a language model learns."""
    draw = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    choice = ["one", "two", "three", "four", "ranks", "train", "a", "model", "of", "words"]
    lines = (" ".join(draw.choice(choice, 10)) for _ in range(words // 10))
    path.write_text("\n".join(lines) + "\n")


def write_everything(work: Path) -> None:
    """Write all data that the programs read, once."""
    if (work / "made").exists():
        return
    write_mnist(work / "data")
    write_chainer_mnist(work / "chainer")
    write_images(work / "photos" / "train", 32)
    write_images(work / "photos" / "val", 8)
    for n, name in enumerate(("train", "valid", "test")):
        write_text(work / "wikitext" / f"{name}.txt", 8000 if n == 0 else 1000, n)
    write_text(work / "input.txt", 20_000)
    (work / "made").touch()
