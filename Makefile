# Each target makes the virtual environment that it needs; nothing but Python 3.10+, a C and C++ compiler and the
# package index is expected on the machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py $(wildcard src/_native/*)

.PHONY: demo test lint wheel bench docs clean

demo: $(VENV)/.installed
	$(BIN)/runoff demo

test: $(VENV)/.installed-test lint
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(VENV)/.installed
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist .

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.installed
	$(BIN)/python benchmarks/report.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info src/runoff/*.so src/_native/pairs.c

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(VENV)/.installed $@
