"""PyTorch on a rank."""
