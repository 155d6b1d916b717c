"""What the notebook and the shell share to show runs: sentences, waiting, following, figures.

It displays nothing itself.
"""
