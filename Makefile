# Every target first installs what it needs (see tools/setup), so a fresh clone is enough.

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Tests start hpcdist a thousand times: it must not be recompiled each time.
unexport PYTHONDONTWRITEBYTECODE

# Real tests wait more than they compute: those without anything real compute meanwhile, behind them, and are shown
# when both have ended.
PURE := pytest -n 3 --durations 10 -m
define tests # of all that "$(1)" selects, with the options $(2)
	@log=$$(mktemp) && trap 'rm -f "$$log"' EXIT; \
	nice $(PURE) "not real$(1)" $(2) >"$$log" 2>&1 & pure=$$!; \
	pytest -n 4 --durations 10 -m "real$(1)" $(2); real=$$?; \
	wait "$$pure"; pure=$$?; cat "$$log"; exit "$$((real + pure))"
endef

.PHONY: help demo test test-all test-fast docs chaos bench lint clean
.DEFAULT_GOAL := help

help: ## List the targets
	@sed -n 's/^\([a-z-]*\): ## /\1\t/p' Makefile | expand -t 12

demo: ## Train a digit classifier on two processes of this machine
	@tools/setup demo
	hpcdist submit examples/quickstart.yml --site local --follow

test: ## Run the checks, and the tests of each mechanism with a real Slurm, Open MPI and Horovod (root, on Debian)
	@tools/setup test
	@$(MAKE) --no-print-directory lint
	$(call tests, and not extended)

test-all: ## Run all tests, on each framework, batch system and browser (root, on Debian); print a table
	@tools/setup all
	@$(MAKE) --no-print-directory lint
	$(call tests,,--hypothesis-profile thorough -p tests.progress)

test-fast: ## Run the tests that need neither Slurm nor Horovod
	@tools/setup fast
	$(PURE) "not real and not extended" --ignore tests/slurm

docs: ## Build the documentation into site/
	@tools/setup docs
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

chaos: ## Try hostile files, values, run directories, disks, kills and restarts, and new examples of each law, for some 50 minutes; print a table
	@tools/setup fast
	HPCDIST_CONFIG= python -m tests.chaos
	pytest -n 2 -m "hypothesis and not real" --hypothesis-profile explore

bench: ## Measure speed and print a table
	@tools/setup test
	python -m benchmarks

lint: ## Check style, types and shell scripts
	@tools/setup fast
	ruff check
	ruff format --check
	mypy
	shellcheck .ci/run tools/*

clean: ## Remove generated files; the Horovod wheel and the newer Slurms stay in ~/.cache/hpcdist
	rm -rf .venv .frameworks .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
