# Each target makes the virtual environment that it needs; nothing but Python 3.10+, a C and C++ compiler and the
# package index is expected on the machine.
PYTHON ?= python3
VENV ?= .venv
ROUNDS ?= 4
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py $(wildcard src/_native/*)

.PHONY: demo test test-kernels test-vnni sanitize lint wheel bench docs clean bench-quick peers torture bench-caches bench-deadlines bench-native bench-quantisation evaluation evaluation-times

demo: $(VENV)/.installed
	$(BIN)/runoff demo

test: $(VENV)/.installed-test lint
	$(BIN)/python -m pytest

# The suites of the encoders with each kernel forced in turn. An AVX-512 kernel on emulated instructions, slow but there
# on any x86-64 machine, is built apart; the tests of the native code itself then run on it too.
ENCODER_TESTS := tests/test_encoders.py tests/test_backends.py tests/test_models.py
EMULATED := build/emulated/site
test-kernels: $(VENV)/.installed-test
	RUNOFF_EMULATED=1 $(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(EMULATED) .
	for kernel in portable avx2; do RUNOFF_KERNEL=$$kernel $(BIN)/python -m pytest $(ENCODER_TESTS) || exit 1; done
	RUNOFF_KERNEL=avx512vnni PYTHONPATH=$(EMULATED) $(BIN)/python -m pytest $(ENCODER_TESTS)
	PYTHONPATH=$(EMULATED) $(BIN)/python -m pytest tests/test_native*.py

# The C code with every access and operation checked, then with every race between threads. The AVX-512 kernel is the
# emulated one: what inline assembly reads, no sanitizer sees. ThreadSanitizer cannot follow a fork of many threads.
NATIVE := $(addprefix src/_native/,encoder.c kernel_avx2.c kernel_portable.c pack.c pool.c) tests/native/kernel_emulated.c
SANITIZE := $(CC) -g -O1 -fno-omit-frame-pointer -ffp-contract=off -fno-sanitize-recover=all -Isrc/_native
sanitize:
	mkdir -p build
	$(SANITIZE) -fsanitize=address,undefined tests/native/driver.c $(NATIVE) -o build/driver-address -pthread -lm
	build/driver-address $(ROUNDS) 4
	$(SANITIZE) -fsanitize=thread tests/native/driver.c $(NATIVE) -o build/driver-thread -pthread -lm
	build/driver-thread $(ROUNDS) 0

# All of what `make test` runs a tenth of: kills, full and failing disks, damage, writers and readers at once.
torture: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m torture --json benchmarks/results/torture.json

# The AVX-512 kernel itself, inline assembly and all, on a CPU that Bochs emulates; emulate.sh says what it needs.
test-vnni:
	mkdir -p build
	$(CC) -O3 -static -ffp-contract=off -Isrc/_native tests/native/driver.c \
		$(NATIVE:tests/native/kernel_emulated.c=src/_native/kernel_avx512vnni.c) -o build/driver-vnni -pthread -lm
	sh tests/native/emulate.sh build/vnni build/driver-vnni 1 1 | tee build/vnni.txt
	grep 'avx512vnni: sound' build/vnni.txt

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(VENV)/.installed
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist .

# DATA is a folder of labelled collections; STOCK and FP32 are described in docs/models.md, MODELS in benchmarks/README.md,
# BI_ENCODER is a folder with the checkpoint of all-MiniLM-L6-v2; FEEDS are feed files.
# What was measured is kept in WORK, so that a run that was stopped goes on; remove it to measure anew.
PEERS ?= .peers
WORK ?= .bench
FEEDS ?= src/runoff/demo/feed.xml
TEXT = $(DATA)/nq_passages/corpus.jsonl.gz
CONTEST = --text $(TEXT) --models $(MODELS) --venvs $(PEERS) --work $(WORK)
ALL_THREE = $(addprefix $(DATA)/,nq_passages fiqa_test scifact)
EXITS = --collections $(DATA) --cache $(WORK)/exits
BENCHES := assembly rerank_plan first_answer rerank_peers determinism depth concurrency first_stage fusion filters \
  end_to_end ingest lexical scale early_exit early_exit_time calibration serve serve_fuzz
assembly = --text $(TEXT)
rerank_plan = --text $(TEXT) --stock $(STOCK)
rerank_peers = $(CONTEST) --collection $(ALL_THREE)
determinism = $(CONTEST)
depth = $(CONTEST)
concurrency = $(CONTEST)
first_stage = --venvs $(PEERS) --work $(WORK)
fusion = --collection $(ALL_THREE)
end_to_end = --collection $(DATA)/nq_passages --models $(MODELS) --bi-encoder $(BI_ENCODER) --venvs $(PEERS) --work $(WORK)
ingest = --feeds $(FEEDS) --bi-encoder $(BI_ENCODER) --venvs $(PEERS) --work $(WORK)
lexical = --collections $(DATA) --work $(WORK)/lexical
scale = --collections $(DATA) --work $(WORK)/scale
early_exit = $(EXITS)
early_exit_time = $(EXITS) --text $(TEXT)
calibration = $(EXITS) --svg docs/reliability.svg

# All that the machine can: one that cannot run does not keep the others from it, and is named at the end.
bench: $(VENV)/.installed-test
	$(MAKE) --keep-going $(BENCHES:%=bench-%) bench-caches bench-native bench-quantisation bench-deadlines

$(BENCHES:%=bench-%): bench-%: $(VENV)/.installed-test
	$(BIN)/python benchmarks/$*.py $($*) --json $(RESULTS)/$*.json

bench-caches: $(VENV)/.installed-test
	for part in time stream; do \
	  $(BIN)/python benchmarks/caches.py --collections $(addprefix $(DATA)/,nq_passages fiqa_test) --part $$part \
	    --store .evaluation/caches-store --json $(RESULTS)/caches.json || exit 1; \
	done

bench-quick: $(VENV)/.installed
	$(BIN)/python benchmarks/quick.py

# Stops and goes on where it was; LIMIT bounds the questions of each collection.
LIMIT ?= 1000000
PASSES := .evaluation
EVALUATED := benchmarks/results/evaluation
evaluation: $(VENV)/.installed-test
	mkdir -p $(EVALUATED)
	$(BIN)/runoff ingest src/runoff/demo/feed.xml --store $(PASSES)/demo-store
	$(BIN)/runoff eval src/runoff/demo/questions.jsonl --store $(PASSES)/demo-store --out $(PASSES)/demo
	$(BIN)/runoff eval $(DATA)/nq_passages --limit $(LIMIT) --out $(PASSES)/nq_passages
	$(BIN)/runoff eval $(DATA)/fiqa_test --limit $(LIMIT) --out $(PASSES)/fiqa_test
	$(BIN)/runoff eval $(DATA)/scifact --whole --limit $(LIMIT) --out $(PASSES)/scifact
	$(BIN)/python benchmarks/published.py --collection $(DATA)/scifact --store $(PASSES)/scifact/store --json benchmarks/results/published.json
	for name in demo nq_passages fiqa_test scifact; do cp $(PASSES)/$$name/summary.json $(EVALUATED)/$$name.json; done

# A short run for the page's times, on a machine that does nothing else.
evaluation-times:
	$(MAKE) evaluation LIMIT=100 PASSES=.evaluation-times EVALUATED=benchmarks/results/evaluation/times

peers:
	for name in st ort ov st-ov; do \
	  $(PYTHON) -m venv $(PEERS)/$$name && \
	  $(PEERS)/$$name/bin/python -m pip install --quiet -r benchmarks/peers/requirements-$$name.txt || exit 1; \
	done

# What is told of the native encoder; on a quiet machine. FP32 holds both fp32 artifacts; OPENVINO is the python of an
# environment with openvino and nncf, PEER of one with sentence-transformers; BI_ENCODER and RECOVERED are checkpoints.
RESULTS := benchmarks/results
bench-native: $(VENV)/.installed
	$(BIN)/python benchmarks/native.py --text $(TEXT) --stock $(STOCK) --fp32 $(FP32)/ms-marco-MiniLM-L-12-v2 \
		--openvino $(OPENVINO) --rounds 5 --json $(RESULTS)/native.json
	$(BIN)/python benchmarks/embedding.py --text $(TEXT) --json $(RESULTS)/embedding.json
	$(BIN)/python benchmarks/footprint.py --rounds 3 --peer $(PEER) --bi-encoder $(BI_ENCODER) \
		--cross-encoder $(RECOVERED) --json $(RESULTS)/footprint.json

# Long, but needs no quiet machine; goes on where it was stopped.
bench-quantisation: $(VENV)/.installed
	$(BIN)/python benchmarks/quantisation.py --collections $(DATA) --fp32 $(FP32) --cache build/fp32 \
		--json $(RESULTS)/quantisation.json

bench-deadlines: $(VENV)/.installed-test
	$(BIN)/python benchmarks/windows.py --collections $(DATA) --work $(WORK) --json $(RESULTS)/windows.json
	$(BIN)/python benchmarks/deadlines.py --collections $(DATA) --work $(WORK) --json $(RESULTS)/deadlines.json

docs: $(VENV)/.installed
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/evaluation_page.py
	$(BIN)/python benchmarks/fusion_page.py
	$(BIN)/python benchmarks/lexical_page.py
	$(BIN)/python benchmarks/scale_page.py
	$(BIN)/python benchmarks/serve_report.py
	$(BIN)/python benchmarks/caches_page.py
	$(BIN)/python benchmarks/deadlines_page.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info src/runoff/*.so src/_native/pairs.c src/_native/bm25.c src/_native/scan.c src/_native/hnsw.c

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(VENV)/.installed $@
