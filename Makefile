# Everything a fresh machine needs: Python 3.11 or newer, a C compiler and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
INSTALLED := $(VENV)/.installed
SB3 := $(VENV)-sb3/.installed
DEMOS := $(VENV)-demos/.installed
OLDEST := $(VENV)-oldest/.installed
NEWEST := $(VENV)-newest/.installed
AUDIT := $(VENV)-audit/.installed
DOCS := $(VENV)-docs/.installed
D3RLPY := $(VENV)-d3rlpy/.installed
CLUSTERS := $(VENV)-clusters/.installed
SLURM := slurm-wlm munge iproute2
# the newest supported Python on this machine
NEWEST_PYTHON ?= $(shell for p in python3.13 python3.12; do $$p -c '' 2> /dev/null && echo $$p && exit; done; echo $(PYTHON))
# what depends most on the versions of other packages: compiled code, networks, environments, files
VERSIONS := $(shell cat tests/versions.txt)

.PHONY: demo test test-full test-mutations slurm test-slow test-faults audit constraints test-sb3 test-demos test-clusters bench-d3rlpy test-oldest test-newest lint format bench docs test-docs clean

demo: $(CORE)  ## install and run the one-minute demo
	$(BIN)/gvfx demo

FAST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 JAX_DISABLE_MOST_OPTIMIZATIONS=1 NUMBA_OPT=1

# $(call beside,A,B): runs A while B runs, and shows what A printed after it; fails if one of them does
beside = @log=$$(mktemp); ($(1)) > $$log 2>&1 & other=$$!; $(2); code=$$?; \
	wait $$other; others=$$?; cat $$log; rm -f $$log; [ $$code = 0 ] && [ $$others = 0 ]

test: $(INSTALLED)  ## install, lint, type-check, check the layers, run the fast tests: every rule, equation and contract
	$(call beside,$(MAKE) --no-print-directory lint,$(FAST) $(BIN)/pytest -n 2)

test-full: $(INSTALLED)  ## what is shipped: wheel, browser, docs, examples, kills, sweeps, benchmarks; a tenth of the mutations
	$(FAST) $(BIN)/pytest -n 2 -m 'full and not slow'
	$(MAKE) --no-print-directory test-mutations

test-mutations: $(INSTALLED)  ## a random tenth of the mutations, SHARE=1 for all: wrong numbers that the tests must notice
	$(FAST) $(BIN)/python tools/mutations.py --share $(or $(SHARE),0.1)

test-slow: $(INSTALLED)  ## the claims at full size and the long conformance checks: CONTRIBUTING.md
	$(BIN)/pytest -m slow

test-faults: $(INSTALLED)  ## kills, damaged files, failing disks, wrong input: thousands of trials in at most half an hour
	PYTHONPATH=tests $(BIN)/python -m faults $(GROUPS)

test-sb3: $(SB3)  ## Stable-Baselines3 models as policies, in an environment of their own (a CPU build of PyTorch)
	$(VENV)-sb3/bin/pytest -o addopts= tests/questions/test_sb3.py

test-demos: $(DEMOS)  ## the notebooks of examples/demos, in an environment of their own (SUMO, highway-env, MO-Gymnasium)
	$(VENV)-demos/bin/pytest -o addopts= tests/test_demos.py

test-clusters: slurm $(CLUSTERS)  ## the recipes of docs/cluster.md: SLURM on this machine, the pods of Kubernetes as processes
	$(VENV)-clusters/bin/pytest -m 'slow or not slow' -rs tests/experiments/test_slurm_recipe.py tests/experiments/test_kubernetes_recipe.py

slurm:  ## SLURM from Debian's packages, unless it is there
	@PATH="$$PATH:/usr/sbin:/sbin"; for program in munged slurmctld slurmd sbatch ip; do \
		command -v $$program > /dev/null && continue; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
			apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $(SLURM) && break; exit 1; \
		fi; \
		echo "$$program is not installed; run as root: apt-get install $(SLURM)" >&2; exit 1; \
	done

bench-d3rlpy: $(D3RLPY)  ## gvfx beside plain rollouts and d3rlpy's FQE, in an environment of its own (a CPU build of PyTorch)
	$(VENV)-d3rlpy/bin/pytest -o addopts= tests/benchmarks/test_fqe.py
	$(VENV)-d3rlpy/bin/python -m benchmarks alternatives

test-oldest: $(OLDEST)  ## the oldest supported versions, constraints-oldest.txt
	OPENBLAS_NUM_THREADS=1 $(VENV)-oldest/bin/pytest -n 2 $(VERSIONS)

test-newest: $(NEWEST)  ## the newest Python here and the newest versions that pyproject.toml allows
	OPENBLAS_NUM_THREADS=1 $(VENV)-newest/bin/pytest -n 2 $(VERSIONS)

lint: $(INSTALLED)
	$(BIN)/ruff check src benchmarks tests examples tools docs
	$(BIN)/ruff format --check src benchmarks tests examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(INSTALLED)  ## rewrite the sources in the house style
	$(BIN)/ruff check --fix src benchmarks tests examples tools
	$(BIN)/ruff format src benchmarks tests examples tools

audit: $(INSTALLED) $(AUDIT)  ## dependencies that do not fit, are not the pinned ones, or have known vulnerabilities (asks an advisory service)
	$(BIN)/pip check
	$(BIN)/python tools/constraints.py --check
	$(VENV)-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

constraints:  ## pin the newest versions that pyproject.toml allows in constraints.txt
	rm -rf $(VENV)-pins
	$(PYTHON) -m venv $(VENV)-pins
	$(VENV)-pins/bin/pip install --quiet --editable '.[dev]'
	$(PYTHON) tools/constraints.py $(VENV)-pins/bin/python

docs: $(DOCS)  ## build the documentation site into site/, without a network
	$(VENV)-docs/bin/python docs/make_site.py

test-docs: docs $(INSTALLED)  ## open every page of the site in headless Chromium: links, requests, errors, search
	$(BIN)/pytest -m slow tests/test_site.py

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks tabular

$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(INSTALLED): $(CORE)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(SB3): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-sb3
	$(VENV)-sb3/bin/pip install --quiet torch==2.13.0
	$(VENV)-sb3/bin/pip install --quiet --constraint constraints.txt --editable '.[sb3,deep]' pytest
	touch $@

$(DEMOS): pyproject.toml constraints.txt $(wildcard examples/demos/*.txt)
	$(PYTHON) -m venv $(VENV)-demos
	$(VENV)-demos/bin/pip install --quiet --constraint constraints.txt --editable . pytest nbclient ipykernel \
		$(patsubst %,-r %,$(wildcard examples/demos/*.txt))
	touch $@

$(D3RLPY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-d3rlpy
	$(VENV)-d3rlpy/bin/pip install --quiet torch==2.13.0
	$(VENV)-d3rlpy/bin/pip install --quiet d3rlpy==2.8.1
	$(VENV)-d3rlpy/bin/pip install --quiet --editable '.[deep]' pytest
	touch $@

$(CLUSTERS): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-clusters
	$(VENV)-clusters/bin/pip install --quiet --constraint constraints.txt --editable '.[cluster]' pytest \
		dask-jobqueue==0.9.0 cryptography==50.0.2 kubernetes-validate==1.37.0
	touch $@

$(AUDIT):
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/pip install --quiet pip-audit
	touch $@

$(DOCS): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

$(OLDEST): pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet --constraint constraints-oldest.txt --editable '.[test]'
	touch $@

$(NEWEST): pyproject.toml
	$(NEWEST_PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-sb3 $(VENV)-demos $(VENV)-oldest $(VENV)-newest $(VENV)-audit $(VENV)-docs $(VENV)-d3rlpy $(VENV)-clusters $(VENV)-pins demo results site .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
