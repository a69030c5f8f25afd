# Two commands: `make bench` sets up and measures, `make test` sets up and tests. Neither does anything twice.
PYTHON ?= python3
BIN := .venv/bin
FRAMEWORKS := torch jax mlx tensorflow

.PHONY: bench test check readme

bench: .venv/.frameworks
	$(BIN)/bench run --suite quick

test: .venv/.frameworks .venv/.test
	$(BIN)/python -m pytest

check: .venv/.check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

readme: .venv/.frameworks
	$(BIN)/python tests/benchmarks/readme_table.py

.venv/.created:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else f"metalbench needs Python 3.11 or newer, not {sys.version.split()[0]}: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'  # the first that installs dependency groups
	touch $@

# All frameworks at once, so that pip finds versions that fit together; where one can't be had, the others one by one.
.venv/.frameworks: .venv/.created pyproject.toml
	if $(BIN)/pip install --quiet --editable '.[frameworks]'; then touch $@; else $(BIN)/pip install --quiet --editable . && \
	  for framework in $(FRAMEWORKS); do $(BIN)/pip install --quiet --editable ".[$$framework]" \
	  || echo "$$framework could not be installed and is left out; the next make tries again"; done; fi

.venv/.test: .venv/.created pyproject.toml
	$(BIN)/pip install --quiet --editable . --group test
	touch $@

.venv/.check: .venv/.created pyproject.toml
	$(BIN)/pip install --quiet --editable . --group check --group test
	touch $@
