"""Curves as pages draw them: sampled down, smoothed, framed."""
