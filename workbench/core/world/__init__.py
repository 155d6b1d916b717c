"""One MPI world: its hosts and ranks, host files, and the interface of a session with a host."""
