"""How fast workbench is, beside the way one would do the same without it."""
