"""The options of shell, notebook and job file: declared once, and how job files are read."""
