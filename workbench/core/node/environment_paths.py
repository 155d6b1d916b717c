"""The paths of a node's Python environment, and the tool that creates it.

It is in our own folder, wherever this environment is: ``/usr``, ``/usr/local``, conda, pyenv or a
virtual environment. A host of the user has its environment at the same path as here.
"""

FOLDER = "/opt/workbench"
PREFIX = f"{FOLDER}/env"
PYTHON = f"{PREFIX}/bin/python"
UV = f"{FOLDER}/uv"
PYTHONS = f"{FOLDER}/python"  # installed by uv if the image has another version
# A pinned release that was tested: a new one is not used on its first day.
UV_VERSION = "0.13.9"
