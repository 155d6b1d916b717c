"""A run: its request, the messages of ranks and supervisor, and its end."""
