"""Published programs that are run unmodified, with the arguments that make them short."""

from __future__ import annotations

from dataclasses import dataclass

TORCH = "pytorch+examples"
HOROVOD = "horovod+horovod/examples"
CHAINER = "chainer+chainer/examples"
LIGHTNING = "Lightning-AI+pytorch-lightning/examples"
MNIST_LOSS = r"Loss: ([-\d.]+)"


@dataclass(frozen=True)
class Program:
    """A program, and what it is expected to do.

    Args:
        path: Below the folder of checkouts.
        arguments: Of the program; ``{work}`` is the folder with made-up data.
        iterations: How many it trains on two ranks; 0 if it is stopped.
        epochs: How many it trains; 0 if no DataLoader tells.
        printed: Finds losses of single steps in what it prints, one group each.
        name: The curve that these losses are in.
        exits: The expected exit status of ``workbench run``.
        options: Of ``workbench run``.
    """

    path: str
    arguments: str = ""
    iterations: int = 0
    epochs: float = 0.0
    printed: str = MNIST_LOSS
    name: str = "loss"
    exits: int = 0
    options: str = ""

    @property
    def label(self) -> str:
        """What it is called in a table."""
        return self.path.replace("/examples", "", 1).replace("+", "/", 1)


# 1,024 digits: 16 batches of 64 alone, 8 where two ranks divide them.
PROGRAMS = (
    Program(f"{TORCH}/mnist/main.py", "--epochs 2 --no-accel", 32, 2),
    Program(f"{TORCH}/mnist_rnn/main.py", "--epochs 2", 32, 2),
    Program(f"{TORCH}/siamese_network/main.py", "--epochs 2 --no-accel", 32, 2),
    # It prints the mean of a batch's examples, and trains by their sum.
    Program(f"{TORCH}/vae/main.py", "--epochs 2 --no-accel", 16, 2, printed=""),
    Program(
        f"{TORCH}/dcgan/main.py",
        "--dataset fake --imageSize 64 --ngf 4 --ndf 4 --batchSize 100 --niter 1 --workers 0",
        10,
        1,
        r"Loss_D: ([\d.]+)",
    ),
    Program(
        f"{TORCH}/dcgan/main.py",
        "--dataset fake --imageSize 64 --ngf 4 --ndf 4 --batchSize 100 --niter 1 --workers 0",
        10,
        1,
        r"Loss_G: ([\d.]+)",
        "optimizerG/loss",
    ),
    Program(
        f"{TORCH}/word_language_model/main.py",
        "--data {work}/wikitext --epochs 1 --emsize 16 --nhid 16 --log-interval 1 --use-optimizer",
        13,
        0,
        "",
    ),
    Program(
        f"{TORCH}/word_language_model/main.py",
        "--data {work}/wikitext --epochs 1 --emsize 16 --nhid 16 --log-interval 1",
        13,
        0,
        "",
    ),
    Program(f"{TORCH}/distributed/ddp-tutorial-series/multigpu_torchrun.py", "2 1", 64, 2, ""),
    Program(f"{TORCH}/distributed/ddp-tutorial-series/multinode.py", "2 1", 64, 2, ""),
    Program(f"{TORCH}/distributed/ddp/example.py", "", 1, 0, ""),
    Program(
        f"{TORCH}/distributed/minGPT-ddp/mingpt/main.py",
        "data_config.path={work}/input.txt data_config.block_size=16 gpt_config.n_layer=1"
        " gpt_config.n_head=2 gpt_config.n_embd=16 trainer_config.max_epochs=1"
        " trainer_config.batch_size=64 trainer_config.data_loader_workers=0",
        0,
        1,
        r"Train Loss ([\d.]+)",
    ),
    Program(f"{TORCH}/regression/main.py", "", 0, 0, r"Loss: ([\d.]+)"),
    Program(f"{HOROVOD}/pytorch/pytorch_mnist.py", "--epochs 2 --data-dir {work}/data", 16, 2),
    Program(
        f"{HOROVOD}/pytorch/pytorch_mnist.py",
        "--epochs 1 --data-dir {work}/data --fp16-allreduce --gradient-predivide-factor 2",
        8,
        1,
    ),
    Program(
        f"{HOROVOD}/pytorch/pytorch_mnist.py",
        "--epochs 1 --data-dir {work}/data --use-adasum",
        exits=1,
    ),
    Program(
        f"{HOROVOD}/pytorch/pytorch_synthetic_benchmark.py",
        "--model resnet18 --batch-size 1 --num-warmup-batches 1 --num-batches-per-iter 2"
        " --num-iters 2",
        5,
        0,
        "",
    ),
    Program(
        f"{HOROVOD}/pytorch/pytorch_imagenet_resnet50.py",
        "--train-dir {work}/photos/train --val-dir {work}/photos/val --batch-size 2"
        " --batches-per-allreduce 2 --epochs 1 --val-batch-size 2",
        4,
        1,
        "",
    ),
    Program(
        f"{HOROVOD}/elastic/pytorch/pytorch_mnist_elastic.py",
        "--epochs 2 --data-dir {work}/data",
        0,
        2,
    ),
    Program(
        f"{HOROVOD}/elastic/pytorch/pytorch_synthetic_benchmark_elastic.py",
        "--model resnet18 --batch-size 1 --num-warmup-batches 1 --num-batches-per-iter 2"
        " --num-iters 2",
        0,
        0,
        "",
    ),
    Program(
        f"{HOROVOD}/elastic/pytorch/pytorch_imagenet_resnet50_elastic.py",
        "--train-dir {work}/photos/train --val-dir {work}/photos/val --batch-size 2"
        " --epochs 1 --val-batch-size 2",
        0,
        1,
        "",
    ),
    Program(f"{HOROVOD}/pytorch/pytorch_lightning_mnist.py", "--epochs 1", exits=1),
    Program(f"{CHAINER}/mnist/train_mnist_custom_loop.py", "--epoch 2 --unit 50", 21, 0, ""),
    Program(f"{CHAINER}/mnist/train_mnist.py", "--epoch 2 --unit 50", 21, 0, ""),
    Program(f"{CHAINER}/chainermn/mnist/train_mnist.py", "--epoch 2 --unit 50", 11, 0, ""),
    Program(
        f"{CHAINER}/chainermn/mnist/train_mnist_model_parallel.py", "--epoch 2 --unit 50", 21, 0, ""
    ),
    Program(
        f"{CHAINER}/chainermn/mnist/train_mnist_dual_parallel.py", "--epoch 2 --unit 50", 21, 0, ""
    ),
    Program(f"{LIGHTNING}/pytorch/bug_report/bug_report_model.py", "", 1, 0, ""),
)
