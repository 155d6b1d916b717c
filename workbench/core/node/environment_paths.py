"""The paths of a node's Python environment, and the tool that makes it.

It is a folder of ours, whatever the environment here is in: ``/usr``, ``/usr/local``, conda, pyenv
or a virtual environment. A host of a person's own has its environment where it is here.
"""

FOLDER = "/opt/workbench"
PREFIX = f"{FOLDER}/env"
PYTHON = f"{PREFIX}/bin/python"
UV = f"{FOLDER}/uv"
PYTHONS = f"{FOLDER}/python"  # those that uv brings where the image has another version
# A release that was tried here: a new one does not come to everybody's nodes on its first day.
UV_VERSION = "0.13.9"
