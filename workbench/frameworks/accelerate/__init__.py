"""Hugging Face's accelerate: the values that it logs, its launchers, and what it knows of ranks."""
