# One command each, from nothing. Everything happens in environments inside this folder; nothing outside it is touched, but
# that test and soak install PostgreSQL's server where it is missing and may be installed (tools/postgres.sh).
PYTHON ?= python3
VENV   := .venv
OLDEST := .venv-oldest
PYSYFT := .venv-pysyft
ENGINES := .venv-engines
FLOWER := .venv-flower
FLOWER_VERSIONS ?= 1.23.0 1.32.1 1.40.0
BIN    := $(VENV)/bin
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
WORKERS ?= 2
KILLS  ?= 5000
RUNS   ?= 10

# Modules that cannot be imported without an extra, which the oldest environment has none of.
NEEDS_EXTRAS := cli plots integrations kernels/compiled.py kernels/compiled_draws.py kernels/compiling.py \
    clients/compiled.py training/compiled.py testing/category/compiled.py simulation/learners/convolutions.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest test-pysyft test-flower fuzz check format docs bench bench-sim bench-store postgres soak clean

help:  ## what can be made here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.demo  ## train a model across simulated phones, Oort beside random selection
	$(BIN)/oort demo

test: $(VENV)/.test postgres test-oldest  ## every test, on the newest and on the oldest libraries that we declare
	$(BIN)/python -m pytest -n $(WORKERS)

# The core, on the oldest libraries: what builds on it (store, simulator, adapters) brings newer ones along.
test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python -m pytest -n $(WORKERS) -m "not slow" $(NEEDS_EXTRAS:%=--ignore=src/oort/%) \
	    --ignore=tests/store --ignore=tests/simulation --ignore=tests/integrations \
	    tests src README.md CONTRIBUTING.md docs

postgres:
	@sh tools/postgres.sh

soak: $(VENV)/.test postgres  ## kill durable selectors thousands of times and look at what is left
	$(BIN)/python -m tests.store.soak --kills $(KILLS) --workers $(WORKERS)

fuzz: $(VENV)/.test  ## the properties on examples that were never tried before, RUNS times
	for run in $$(seq $(RUNS)); do OORT_EXAMPLES=fresh $(BIN)/python -m pytest -n $(WORKERS) -m hypothesis tests || exit 1; done

test-pysyft: $(PYSYFT)/.test  ## the PySyft adapter, which needs another version of Flower than the rest
	$(PYSYFT)/bin/python -m pytest -n $(WORKERS) tests/integrations/pysyft tests/integrations/flower/test_rounds.py

test-flower: $(FLOWER)/.test  ## the Flower adapter in the simulation engine of other versions: FLOWER_VERSIONS="1.30.0 ..."
	for version in $(FLOWER_VERSIONS); do \
	    PIP_DISABLE_PIP_VERSION_CHECK=1 $(FLOWER)/bin/python -m pip install --quiet "flwr[simulation]==$$version" || exit 1; \
	    echo "== flwr $$version"; \
	    $(FLOWER)/bin/python -m pytest -n $(WORKERS) -W ignore tests/integrations/flower/test_rounds.py \
	        tests/integrations/flower/test_client.py tests/integrations/flower/test_simulation.py || exit 1; \
	done

check: $(VENV)/.check  ## lint, types, layers, dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

format: $(VENV)/.check  ## rewrite the code the way check wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.docs  ## build the documentation, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.demo  ## measure, and write benchmarks/results
	$(BIN)/python -m benchmarks

bench-store: $(VENV)/.demo  ## what durability costs
	$(BIN)/python -m benchmarks.store

bench-sim: $(ENGINES)/.bench-sim  ## the simulator beside Flower's and pfl-research's
	$(ENGINES)/bin/python -m benchmarks.simulation

clean:  ## forget everything that was built
	rm -rf $(VENV) $(OLDEST) $(PYSYFT) $(ENGINES) $(FLOWER) build dist docs/_build docs/_generated oort-demo runs .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing into $(VENV) ..."
	$(PIP) -c constraints.txt -e '.[all]'
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(PIP) -c constraints.txt --group test --group docs
	@touch $@

# All three engines share one environment, and so NumPy and torch. It is not ours: pfl-research needs other versions
# of some packages than our constraints name.
$(ENGINES)/.bench-sim: pyproject.toml
	$(PYTHON) -m venv $(ENGINES)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(ENGINES)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(ENGINES)/bin/python -m pip install --quiet \
	    -e '.[sim,fast]' 'torch==2.13.0' 'flwr[simulation]==1.41' 'pfl==0.6.0'
	@touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(PIP) -c constraints.txt --group docs
	@touch $@

$(VENV)/.check: $(VENV)/.test
	$(PIP) -c constraints.txt --group check
	@touch $@

# The oldest NumPy and SciPy that pyproject.toml declares, without any extra.
$(OLDEST)/.test: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(OLDEST)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(OLDEST)/bin/python -m pip install --quiet \
	    numpy==1.25.0 scipy==1.9.3 pytest pytest-xdist hypothesis sybil -e .
	@touch $@

$(FLOWER)/.test: pyproject.toml
	$(PYTHON) -m venv $(FLOWER)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(FLOWER)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(FLOWER)/bin/python -m pip install --quiet \
	    pytest pytest-xdist hypothesis sybil -e '.[flower]'
	@touch $@

$(PYSYFT)/.test: pyproject.toml
	$(PYTHON) -m venv $(PYSYFT)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(PYSYFT)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(PYSYFT)/bin/python -m pip install --quiet \
	    pytest pytest-xdist hypothesis sybil -e '.[pysyft]'
	@touch $@
