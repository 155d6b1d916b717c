"""A module whose import keeps a processor for good."""

while True:
    pass
