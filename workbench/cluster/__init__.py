"""Hold one ipyparallel controller and its MPI worlds."""
