"""Hugging Face's transformers: the values that its Trainer logs."""
