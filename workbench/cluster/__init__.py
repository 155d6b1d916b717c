"""One ipyparallel controller and its MPI worlds."""
