"""Let ``python -m workbench.cli`` do what ``workbench`` does."""

from workbench.cli import main

main()
