"""Exchange gradients between ranks: in buckets, by the algorithm that suits the link."""
