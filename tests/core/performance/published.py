"""Times that others measured and published, which the model is held against.

Sources:

- the article that this project starts from: an ImageNet subset, NIN, one M60 a node, 10 Gbit/s.
- TensorFlow, "Benchmarks", tensorflow/docs_src/performance/benchmarks.md, May 2017: synthetic and
  real data on a DGX-1, on GCE and EC2 with K80s, and on 1 to 8 p2.8xlarge.
- MXNet, example/image-classification/README.md, "Scalability Results": K80s of one p2.16xlarge,
  then 1 to 16 of them.
- the tables of published_rates.txt, with their sources.
- Oneflow-Inc/DLPerf, reports/dlperf_benchmark_test_report_v1.md, August 2020: ResNet-50 and
  BERT of six frameworks, most by Horovod or NCCL, on 1 to 4 nodes with 8 V100s, InfiniBand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ARTICLE = {1: 34.4, 2: 21.8, 4: 12.5, 6: 9.2, 8: 7.9, 10: 6.3, 12: 5.2}


@dataclass(frozen=True)
class Table:
    """Seconds of an epoch of one example by number of nodes, ``ranks`` of them on each."""

    name: str
    ranks: int
    seconds: Mapping[int, float]


def _rates(name: str, sizes: tuple[int, ...], columns: str, ranks: int = 1) -> list[Table]:
    """Return a table for each column of examples a second."""
    rows = [[float(word) for word in line.split()] for line in columns.strip().splitlines()]
    return [
        Table(
            f"{name} {number}",
            ranks,
            {size: 1 / rate for size, rate in zip(sizes, column, strict=True)},
        )
        for number, column in enumerate(zip(*rows, strict=True))
    ]


_EIGHT = (1, 2, 4, 8)


def _rates_of_file() -> tuple[list[Table], list[Table]]:
    """Return the tables of ``published_rates.txt``: those for making, and those for checking."""
    text = (Path(__file__).parent / "published_rates.txt").read_text("utf-8")
    found: dict[str, list[Table]] = {"making": [], "checking": []}
    blocks: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if ";" in line and not line.startswith("#"):
            blocks.append((line.split("; "), []))
        elif not line.startswith("#"):
            blocks[-1][1].append(line)
    for (use, name, ranks, sizes), rows in blocks:
        nodes = tuple(int(size) for size in sizes.split())
        found[use] += _rates(name, nodes, "\n".join(rows), int(ranks))
    return found["making"], found["checking"]


_MAKING, CHECKING = _rates_of_file()
TABLES: tuple[Table, ...] = (
    Table("the article", 1, ARTICLE),
    *_rates(
        "TensorFlow, DGX-1, synthetic",
        _EIGHT,
        """
        142  219  91.8 2987  154
        284  422  181  5658  295
        569  852  356  10509 584
        1131 1734 716  17822 1081
        """,
    ),
    *_rates(
        "TensorFlow, DGX-1, real",
        _EIGHT,
        """
        142  218  91.4 154
        278  425  179  284
        551  853  359  534
        1079 1630 708  898
        """,
    ),
    *_rates(
        "TensorFlow, DGX-1, batch 32, synthetic",
        _EIGHT,
        """
        128 195  82.7 144
        259 368  160  281
        520 768  317  549
        995 1485 632  820
        """,
    ),
    *_rates(
        "TensorFlow, DGX-1, batch 32, real",
        _EIGHT,
        """
        130 193  82.4 144
        257 369  159  253
        507 760  317  457
        966 1410 609  690
        """,
    ),
    *_rates(
        "TensorFlow, GCE, K80",
        _EIGHT,
        """
        30.5 51.9 20.0 656  35.4
        57.8 99.0 38.2 1209 64.8
        116  195  75.8 2328 120
        227  387  148  4640 234
        """,
    ),
    *_rates(
        "TensorFlow, EC2, K80, synthetic",
        _EIGHT,
        """
        30.8 51.5 19.7 684  36.3
        58.7 98.0 37.6 1244 69.4
        117  195  74.9 2479 141
        230  384  149  4853 260
        """,
    ),
    *_rates(
        "TensorFlow, EC2, K80, real",
        _EIGHT,
        """
        30.5 51.3 19.7 36.3
        59.0 94.9 38.2 67.5
        118  188  75.2 136
        228  373  149  242
        """,
    ),
    *_rates(
        "TensorFlow, p2.8xlarge",
        _EIGHT,
        """
        229  378  146
        459  751  291
        902  1388 565
        1783 2744 981
        """,
        ranks=8,
    ),
    *_rates(
        "MXNet, inside a p2.16xlarge",
        _EIGHT,
        """
        457.07 30.4   20.08
        870.43 59.61  38.76
        1514.8 117.9  77.01
        2852.5 233.39 153.07
        """,
    ),
    *_rates(
        "MXNet, p2.16xlarge",
        (1, 2, 4, 8, 16),
        """
        4244.18  447.61  298.03
        7945.57  882.57  595.53
        15840.52 1761.24 1179.86
        31334.88 3416.2  2333.47
        61938.36 6660.98 4630.42
        """,
        ranks=16,
    ),
    *_rates(
        "DLPerf, ResNet-50",
        (1, 2, 4),
        """
        2969.45  2721.98 2947.72  2719.07  2625.38 2458.74
        5906.55  5099.42 5684.68  5307.21  4895.27 4849.68
        11711.18 9514.64 10419.21 10632.33 9348.17 9418.44
        """,
        ranks=8,
    ),
    *_rates(
        "DLPerf, BERT",
        (1, 2, 4),
        """
        1158.51 868.60  1138.89 761.22  1042.98 806.56  928.03  615.12
        2257.71 1631.36 2189.30 1426.52 1890.26 1090.20 1136.44 1116.02
        4455.97 3167.68 4310.42 2736.78 3715.08 1923.68 1895.50 2073.60
        """,
        ranks=8,
    ),
    *_MAKING,
)

# Images a second of one GPU, and of 16 on four nodes with 25 Gbit/s, each with millions of bytes
# of gradients: Horovod's README of October 2017 (pull request 44), NCCL over RoCE, batches of 64.
HOROVOD = {
    "Inception V3": (134.4, 2022.6, 95.3e6),
    "ResNet-101": (119.4, 1746.2, 178.2e6),
    "VGG-16": (130.9, 1787.4, 553.4e6),
}
