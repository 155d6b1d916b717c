"""Exchange gradients between ranks: in buckets, with the fastest algorithm for the link."""
