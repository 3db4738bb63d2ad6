# make train: set everything up and train on the embedded corpus; make test: set up and test.
# make test-all: also the tests that take long by their nature: hosts, kills, the documentation.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
# Where this is set, each of the many processes of a run or of the tests compiles its imports anew.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(VENV)/bin/python -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: train test test-all test-lowest torture lint clean

train: $(READY)
	$(VENV)/bin/python train.py

test: $(READY)  # at most four minutes on two cores
	$(PYTEST) -m "not long"

test-all: $(READY)
	$(PYTEST)

test-lowest:  # with the oldest version of every library that pyproject.toml allows
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet uv
	.venv-lowest/bin/uv pip install --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	$(subst $(VENV),.venv-lowest,$(PYTEST))

torture: $(READY)  # harm done to runs until one is lost: make torture MINUTES=60
	$(VENV)/bin/python -m tests.torture --minutes=$(or $(MINUTES),30)

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyrefly check --python-interpreter-path $(VENV)/bin/python

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"Python 3.11 or newer is needed, not {v.major}.{v.minor}; name one: make PYTHON=python3.12")'
	@echo "setting up $(VENV) (under a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --no-compile --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-lowest runs/embedded_en_de runs/prepared_corpora .pytest_cache .ruff_cache
