"""The scripts that ``workbench demo`` runs on every rank: of Chainer, of PyTorch, of NumPy."""
