"""Run the ``workbench`` command as ``python -m workbench.cli``."""

from workbench.cli import main

main()
