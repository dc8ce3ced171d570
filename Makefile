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

# DATA is a folder of labelled collections; STOCK and FP32 are described in docs/models.md.
bench: $(VENV)/.installed
	$(BIN)/python benchmarks/assembly.py --text $(DATA)/nq_passages/corpus.jsonl.gz --json benchmarks/results/assembly.json
	$(BIN)/python benchmarks/rerank_plan.py --text $(DATA)/nq_passages/corpus.jsonl.gz --stock $(STOCK) --json benchmarks/results/rerank_plan.json
	$(BIN)/python benchmarks/native.py --text $(DATA)/nq_passages/corpus.jsonl.gz --json benchmarks/results/native.json
	$(BIN)/python benchmarks/quantisation.py --collection $(DATA)/nq_passages --fp32 $(FP32) --json benchmarks/results/quantisation.json
	$(BIN)/python benchmarks/first_answer.py --json benchmarks/results/first_answer.json

docs: $(VENV)/.installed
	$(BIN)/python benchmarks/report.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info src/runoff/*.so src/_native/pairs.c src/_native/bm25.c src/_native/scan.c

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(VENV)/.installed $@
