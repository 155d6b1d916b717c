"""A run: what it asks for, what ranks and supervisor send each other, how it ends."""
