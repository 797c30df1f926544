# Everything a fresh machine needs: Python 3.11 or newer, a C compiler and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
INSTALLED := $(VENV)/.installed
SB3 := $(VENV)-sb3/.installed

.PHONY: demo test test-slow test-sb3 lint format bench clean

demo: $(CORE)  ## install and run the one-minute demo
	$(BIN)/gvfx demo

test: lint  ## install, lint, type-check, check the layers, run the fast tests
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-slow: $(INSTALLED)  ## the claims at full size and the long conformance checks: CONTRIBUTING.md
	$(BIN)/pytest -m slow

test-sb3: $(SB3)  ## Stable-Baselines3 models as policies, in an environment of their own (a CPU build of PyTorch)
	$(VENV)-sb3/bin/pytest -o addopts= tests/questions/test_sb3.py

lint: $(INSTALLED)
	$(BIN)/ruff check src tests benchmarks examples tools docs
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(INSTALLED)  ## rewrite the sources in the house style
	$(BIN)/ruff check --fix src tests benchmarks examples tools
	$(BIN)/ruff format src tests benchmarks examples tools

bench: $(INSTALLED)
	$(BIN)/gvfx bench tabular

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

clean:
	rm -rf $(VENV) $(VENV)-sb3 demo results .pytest_cache .mypy_cache .ruff_cache .hypothesis
