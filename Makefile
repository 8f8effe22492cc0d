# One verb a line; `make` lists them. Each sets up .venv first where it is missing.
PYTHON ?= python3
VENV   ?= .venv
PORT   ?= 8000
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready-$(shell cat requirements.txt pyproject.toml | cksum | cut -d' ' -f1)
SITE   := _build/html
ROOT   := $(if $(filter 0,$(shell id -u)),--allow-root)  # as in a container

export PYTHONDONTWRITEBYTECODE ?= 1

.DEFAULT_GOAL := help
.PHONY: help book site test lab bench check format worked chapters zip clean

help:  ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-17s %s\n", $$1, $$2 }'

book: site  ## build the book and serve it on this machine
	@$(BIN)/python book/serve.py $(SITE) --port $(PORT)

site: $(READY)  ## build the book into _build/html
	@$(BIN)/python book/vendor.py
	@echo "Building the site (the chapters run afresh)"
	@rm -rf $(SITE) _build/.doctrees  # what is unchanged must run as well: lab may have changed
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/jupyter-book build . -q -W -n --keep-going
	@echo "The site is in $(SITE): copy that folder to any web host"

test: export OMP_NUM_THREADS ?= 1  # the tests are as many processes as a small machine has cores
test: check  ## all checks: style, types, tests, every saved number of the chapters
	@echo "Running the tests"
	@$(BIN)/python -m pytest -n 2 --dist loadfile -q
	@echo "Comparing every saved output of the chapters with a fresh run"
	@$(BIN)/python -m pytest --nbval --nbval-sanitize-with tests/nbval.cfg -q chapters

lab: $(READY)  ## open the chapters in JupyterLab
	@$(BIN)/jupyter lab $(ROOT) chapters

check: $(READY)  ## style and types
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/mypy --no-error-summary

format: $(READY)  ## put the code in shape
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .

worked: $(READY)  ## write lab/worked_numbers.json from book/worked_numbers.yaml and the chapters
	@$(BIN)/python -m book.worked_numbers_json

chapters: worked  ## run the chapters and save their outputs
	@$(BIN)/python book/save_chapters.py chapters/*.ipynb

bench: $(READY)  ## speed: simulator and live engine beside peers, the pages beside their limits
	@$(BIN)/python -m benchmarks.simulator
	@$(BIN)/python -m benchmarks.live_engine
	@$(BIN)/python -m benchmarks.calibration
	@$(BIN)/python -m benchmarks.speculation
	@$(BIN)/python -m benchmarks.page

zip: site  ## the site as one file
	@cd $(SITE) && $(abspath $(BIN))/python -m zipfile -c ../tokens-in-flight.zip . && echo "_build/tokens-in-flight.zip"

clean:  ## remove what was built; the virtual environment stays
	@rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "This needs Python 3.11 or newer, and '$(PYTHON)' is not. Name another one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV): 3 minutes or more, and several GB of disk, once"
	@rm -f $(VENV)/.ready-*  # what is interrupted from here on is begun again
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "Python cannot make virtual environments here. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.txt || { \
	  echo "The packages could not be installed. Is there a network? Then call make again: it goes on."; exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $(READY)
