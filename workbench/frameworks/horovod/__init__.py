"""What scripts import as ``horovod`` on a rank, where Horovod itself is not installed."""
