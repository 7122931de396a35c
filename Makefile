# `make demo` and `make test` each do their own set-up on a machine that has nothing but Python 3.11.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup demo check test bench
.DELETE_ON_ERROR:

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,dev]'
	touch $@

demo: setup
	$(BIN)/text2sql-rl run configs/demo.yaml

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup
	$(BIN)/pytest -n 2 --durations=10

bench: demo
	$(BIN)/python bench/run.py
