"""What the notebook and the shell show of a run alike: sentences, waiting, following, figures.

It displays nothing itself.
"""
