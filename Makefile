SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help check test bench chaos demo reference clean sync lint uv machine

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/npu-warden
# Recursive on purpose: `make uv` may just have installed it.
UV = $(shell command -v uv || echo $(CACHE)/tools/bin/uv)
RUN = $(UV) run --no-sync
NEED_GO = event_to_taint fault_to_running report_to_taint burst_500 steady cold_start restart failover
BENCHES = plan agent page $(NEED_GO)
BENCH ?= $(BENCHES)
# uv trusts its own list of authorities; the system's list also has the company's.
SYSTEM_CA := $(wildcard /etc/ssl/certs/ca-certificates.crt)
ifneq ($(SYSTEM_CA),)
export SSL_CERT_FILE ?= $(SYSTEM_CA)
endif

help:
	@echo "make check   lint, types, import rules, the tests of what decides: about a minute, needs only Python"
	@echo "make test    everything, on a machine that has nothing; the first run builds Kubernetes (about 10 minutes on 2 cores)"
	@echo "make bench   what it costs and how fast it is, as JSON lines; BENCH=\"agent plan\" runs some of: $(BENCHES)"
	@echo "make chaos   1,000 random steps of faults, kills and broken links on the lab cluster, 100 on the real control plane"
	@echo "make demo    a simulated cluster in the terminal"
	@echo "make reference  write the pages of docs/ that are made from the code"
	@echo "make clean   caches and build output of this checkout (the built control plane stays in $(CACHE))"

check: uv sync lint
	$(RUN) pytest -n auto -m "not cluster and not redis and not slow" tests/core tests/detect tests/decode

# pytest builds the control plane itself before the first test that needs it.
test: machine sync lint
	go=$$(scripts/go.sh); GO="$$go" scripts/run_tests.sh $(RUN) pytest -v

# All but plan and agent need the real control plane, and with it Go.
bench: machine sync
	$(if $(filter $(NEED_GO),$(BENCH)),go=$$(scripts/go.sh); GO="$$go" )$(RUN) python -m tests.bench $(BENCH)

# The short form of the same tests is part of `make test`. CHAOS_SEED=N: another storm.
CHAOS_SEED ?= 1
chaos: machine sync
	go=$$(scripts/go.sh); GO="$$go" NPUWARDEN_CHAOS_SEED=$(CHAOS_SEED) NPUWARDEN_CHAOS_STEPS=1000 \
	NPUWARDEN_CHAOS_PLANE_STEPS=100 $(RUN) pytest -v -s tests/chaos

demo: uv
	$(UV) run --locked npu-warden lab demo

# docs/cli.md, docs/metrics.md and the reconciler's part of docs/http.md; a test compares them with the code.
reference: sync
	$(RUN) python -m scripts.reference

lint:
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) lint-imports --no-logo

sync:
	$(UV) sync --quiet --locked --all-extras

uv:
	@scripts/bootstrap.sh uv

machine:
	@scripts/bootstrap.sh all

clean:
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
