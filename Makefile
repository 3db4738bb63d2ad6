# make train: set everything up and train on the embedded corpus; make test: set up and test.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready

.PHONY: train test lint clean

train: $(READY)
	$(VENV)/bin/python train.py

test: $(READY)
	$(VENV)/bin/python -m pytest

lint: $(READY)
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"Python 3.11 or newer is needed, not {v.major}.{v.minor}; name one: make PYTHON=python3.12")'
	@echo "setting up $(VENV) (about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) runs/embedded_en_de
