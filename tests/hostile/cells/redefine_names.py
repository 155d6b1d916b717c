MPI = workbench = comm = None
