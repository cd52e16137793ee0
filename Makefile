# Two commands on a fresh machine: `make run` forecasts the Harbor Fleet sample, `make test` tests everything.
# The environment is made once, from requirements.lock, in .venv; nothing outside this folder is changed.

PYTHON   ?= python3
PIPELINE ?= data/harbor_fleet/pipeline.yaml
AS_OF    ?=
PAST     ?= 14
UPGRADE  ?=
ARGS     ?=
STEPS    ?=

BIN := .venv/bin
ENV := .venv/.complete

# uv is taken from the PATH, else fetched into .tools; it never fetches a Python.
UV_VERSION := 0.13.8
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv)
ifeq ($(UV),)
UV := .tools/bin/uv
endif
export UV_PYTHON_DOWNLOADS := never
# uv leaves it to Python to compile what it installed. Where that may not keep its bytecode, every process compiles all
# that it imports, which takes a forecast longer than everything else together.
unexport PYTHONDONTWRITEBYTECODE

SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))

# Sets the shell variable `python` to the first supported interpreter, or says what to install.
define find_python
python=; for each in $(PYTHON) python3.12 python3.11; do \
	  if "$$each" -c '$(SUPPORTED)' >/dev/null 2>&1; then python=$$(command -v "$$each"); break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  found=$$($(PYTHON) --version 2>&1 | head -n 1); \
	  echo "make: found no Python 3.11 or 3.12 ('$(PYTHON)' says: $$found)." >&2; \
	  echo "make: install one ('apt install python3' on Debian 12, 'brew install python@3.12' on macOS)," >&2; \
	  echo "make: or name one: make PYTHON=/path/to/python3.12" >&2; \
	  exit 1; \
	fi
endef

# awk: before each block `name[extras]==...`, the same block as `name==...`.
WITHOUT_EXTRAS := \
  function flush() { \
    if (block ~ /^[a-z0-9-]+\[/) { bare = block; sub(/\[[^]]*\]/, "", bare); printf "%s", bare } \
    printf "%s", block; block = "" \
  } \
  /^[a-z0-9]/ { flush() } { block = block $$0 "\n" } END { flush() }

.DEFAULT_GOAL := help
.PHONY: help env run page test test-quick test-trials test-long check messages docs format lock sbom images wheel release \
  bench bench-accuracy bench-published bench-example bench-speed bench-training bench-cluster bench-serving \
  bench-inference bench-orchestration bench-page bench-library bench-gate bench-judge prior baseline game-day screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

env: $(ENV) ## make .venv from the lock (the others do this by themselves)

run: $(ENV) ## run the night: forecast, judge and publish the Harbor Fleet sample
	@$(BIN)/forecaster run $(PIPELINE) --past $(PAST) $(if $(AS_OF),--as-of $(AS_OF))

page: $(ENV) ## serve the page that depots and planners read
	@$(BIN)/forecaster serve $(PIPELINE)

PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --durations 30
# With the trials in one session: while one waits, others compute.
test: $(ENV) ## run the tests, whole nights and browsers included, but for the long trials; TRIALS=yes: with these
	@$(PYTEST) -m "not exhaustive$(if $(TRIALS),, and not long)"

# Packages whose tests neither train, nor start servers, nor run nights.
QUICK := check cli config core evaluation lake monitoring reports staffing
test-quick: $(ENV) ## run the tests of the packages that neither train nor serve (aim: 2 minutes)
	@$(PYTEST) -m "not long and not exhaustive and not e2e" $(addprefix tests/,$(QUICK))

# Where such tests are: each worker imports all that it collects.
tests_with = $(shell cd tests && grep -rlE '$(1)' */ test_*.py --include='test_*.py' --include=conftest.py \
    | sed 's,/conftest.py$$,,; s,^,tests/,')
test-trials: $(ENV) ## run the long trials once each: kills, hangs, PostgreSQL, several hosts, game day
	@$(PYTEST) -m "long and not exhaustive" $(call tests_with,mark\.long)

test-long: $(ENV) ## run the long trials in every variant, and property tests with many examples; before a release
	@$(PYTEST) -m "long or exhaustive or hypothesis" --hypothesis-profile many $(call tests_with,mark\.(long|exhaustive)|hypothesis)

check: $(ENV) ## check format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

messages: $(ENV) ## collect the sentences for readers into the catalogues of each language, and compile these
	@$(BIN)/python -m tests.catalogues

screenshots: $(ENV) ## make the README's pictures of the page anew; after `make run`
	@$(BIN)/python -m tests.e2e.screenshots $(PIPELINE)

docs: $(ENV) ## write the pages' generated blocks anew, and build the site of the documentation into build/docs
	@$(BIN)/python docs/generate.py
	@$(BIN)/sphinx-build --quiet --builder html --fail-on-warning --keep-going --nitpicky --fresh-env \
	  --conf-dir docs --doctree-dir build/doctrees . build/docs
	@echo "The documentation is in build/docs/index.html"

format: $(ENV) ## put the code into its one format, fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# uv names a package once, with its extras; pip before 23.3 takes `sqlalchemy[asyncio]` and `sqlalchemy` for two and
# wants a pin of each, so those are written twice.
# The existing pins stay where they still fit; `make lock UPGRADE=--upgrade` moves all, and
# `make lock UPGRADE="--upgrade-package rich"` one. Both Pythons get the same versions.
lock: | $(UV) ## pin what pyproject.toml asks for, with hashes, in requirements.lock
	$(UV) pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --all-extras --no-strip-extras \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  $(UPGRADE) pyproject.toml --output-file requirements.lock
	@awk '$(WITHOUT_EXTRAS)' requirements.lock >requirements.lock.new && mv requirements.lock.new requirements.lock
	@mkdir -p build && grep -oE '^[a-z0-9.-]+==[^;\\]+(; [^\\]+)?' requirements.lock >build/pins.txt
	@$(IMAGE_NAMES) flows/containers/serve.in | $(ONLY_NAMES) >flows/containers/serve.txt
	@$(IMAGE_NAMES) flows/containers/build.in | $(ONLY_NAMES) >flows/containers/build.txt
	@$(IMAGE_NAMES) $(addprefix --extra ,$(NIGHT)) pyproject.toml | $(ONLY_NAMES) >flows/containers/night.txt
	@$(IMAGE_NAMES) --generate-hashes flows/containers/night-gpu.in | awk '$(OF_CUDA)' >flows/containers/night-gpu.lock

# Which of the lock's packages each image installs.
NIGHT       := train baselines flows dashboard postgres excel shifts metrics object-store cluster
IMAGE_NAMES  = $(UV) pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
  --constraint build/pins.txt --no-header --no-annotate --no-emit-index-url --no-emit-find-links
# awk: the blocks of CUDA's packages, which are in no lock of ours: nobody else is to download them.
OF_CUDA     := /^[a-z0-9]/ { cuda = /^(jax-cuda|nvidia-)/ } cuda { print }
ONLY_NAMES  := grep -oE '^[a-z0-9.-]+' | sort -u

# BASE= makes a base of Debian's own packages, where no registry is to be reached (needs mmdebstrap and podman).
# The format is Docker's, since OCI's has no HEALTHCHECK.
IMAGES     ?= serve night
BASE       ?= docker.io/library/debian:bookworm-slim
CA         := /etc/ssl/certs/ca-certificates.crt
DEBIAN     := python3,python3-venv,ca-certificates,libgomp1,tzdata
images: $(ENV) ## build the container images IMAGES="serve night" with buildah; BASE= makes a base of Debian's packages
	@mkdir -p build
	@if [ -z "$(BASE)" ] && [ ! -e build/base.tar ]; then \
	  mmdebstrap --variant=minbase --include=$(DEBIAN) --dpkgopt='path-exclude=/usr/share/doc/*' \
	    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' bookworm build/base.tar.new \
	  && mv build/base.tar.new build/base.tar && podman import build/base.tar localhost/debian-python:bookworm; fi
	@for image in $(IMAGES); do \
	  $(BIN)/python -m docs.dependencies flows/containers/$${image%-gpu}.txt $$(ls flows/containers/$$image.lock 2>/dev/null) && \
	  buildah bud --format docker --layers --isolation chroot --network host $(if $(wildcard $(CA)),--volume $(CA):$(CA):ro) \
	    --ignorefile flows/containers/ignored.txt --build-arg BASE=$(or $(BASE),localhost/debian-python:bookworm) \
	    --label io.forecaster.sources="$$($(BIN)/python -m tests.flows.containers.sources)" \
	    --target $$image --tag localhost/forecaster:$$image --file flows/containers/Containerfile . && \
	  $(BIN)/python -m docs.provenance "localhost/forecaster:$$image@$$(buildah inspect --type image --format '{{.FromImageDigest}}' localhost/forecaster:$$image)" || exit 1; \
	done

sbom: $(ENV) ## write the bill of materials (CycloneDX) into build/forecaster.cdx.json
	@$(BIN)/python -m docs.dependencies

wheel: $(ENV) ## build the wheel into dist, with its bill of materials and its signed provenance
	@rm -f dist/*.whl
	@$(BIN)/python -m hatchling build --target wheel --directory dist
	@$(BIN)/python -m docs.provenance dist/*.whl

release: wheel images ## build the wheel and the images IMAGES="serve night" from the lock, each with its signed provenance

bench: $(ENV) ## measure a night; no test asserts these numbers
	@$(BIN)/python -m tests.benchmarks.night

bench-accuracy: $(ENV) ## measure the model and its rivals on eight real datasets (an hour; what was measured is kept); ARGS="--retrain"
	@$(BIN)/python -m tests.benchmarks.accuracy $(ARGS)

bench-judge: $(ENV) ## judge tonight's model and each of its parts by nights of eight panels (an hour; resumable); ARGS="--name new --against old"
	@$(BIN)/python -m tests.benchmarks.judge $(ARGS)

bench-published: $(ENV) ## print our line among published ones, on tasks rebuilt from data at hand; ARGS="--preset nightly --seeds 3"
	@$(BIN)/python -m tests.benchmarks.published $(ARGS)

bench-example: $(ENV) ## measure the worked example beside what became of it, Prophet and the seasonal naive
	@$(BIN)/python -m tests.benchmarks.worked_example

bench-speed: $(ENV) ## measure a training step against its rivals
	@$(BIN)/python -m tests.benchmarks.speed

bench-training: $(ENV) ## measure whole trainings: the sample's with five members, rossmann's 1,115 stores
	@$(BIN)/python -m tests.benchmarks.training

bench-cluster: $(ENV) ## measure a publication by groups of depots on 1, 2 and 4 workers of 2 GB each (30 minutes; ARGS: sizes)
	@$(BIN)/python -m tests.benchmarks.cluster $(ARGS)

bench-serving: $(ENV) ## measure the inference step: size, cold start, calls against JAX and NumPy
	@$(BIN)/python -m tests.benchmarks.serving

bench-inference: $(ENV) ## measure the inference service, against MLServer where MLSERVER_PYTHON names a Python that has it
	@$(BIN)/python -m tests.benchmarks.inference

bench-orchestration: $(ENV) ## measure what Prefect costs a night
	@$(BIN)/python -m tests.benchmarks.orchestration

bench-page: $(ENV) ## measure the page: start, memory, bytes, and its answers under load while publications arrive; ARGS="--mixed 60" its memory in mixed use, by what holds it
	@$(BIN)/python -m tests.benchmarks.page $(ARGS)

bench-library: $(ENV) ## measure import to first forecast, and MASE, beside other libraries (each in an environment of its own)
	@$(BIN)/python -m tests.benchmarks.library $(ARGS)

bench-gate: $(ENV) ## measure ratios within one process (step, graph, kept answer); fails below two thirds of the baseline
	@$(BIN)/python -m tests.benchmarks.ratios

prior: $(ENV) ## pretrain the prior of `training.start: prior` anew, with FORECASTER_DATASETS (10 minutes of one core)
	@$(BIN)/python -m forecaster.training.pretrain $(if $(STEPS),--steps $(STEPS)) \
	  $(addprefix data/real/,$(addsuffix .yaml,bayarea_bikeshare14 chicago_l_stations melbourne_pedestrians \
	  muenster_bike_counters nyc_taxi_apps_geo))

baseline: $(ENV) ## write down what the code costs by now, with REASON="…", for the performance gate of `make test`
	@$(BIN)/python -m tests.benchmarks.baseline --reason "$(REASON)"

game-day: $(ENV) ## do to a running installation what may happen, and see which alerts come and that a forecast is out (an hour)
	@$(BIN)/python -m tests.benchmarks.game_day

clean: ## remove what make made (.venv, .tools, caches); forecasts in var/ stay
	rm -rf .venv .tools build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find forecaster flows dashboards docs tests -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamp is written last, so an interrupted installation starts over.
$(ENV): requirements.lock pyproject.toml | $(UV)
	@if ! $(BIN)/python -c '$(SUPPORTED)' >/dev/null 2>&1; then \
	  $(find_python); \
	  echo "Making .venv with $$("$$python" --version)"; \
	  rm -rf .venv && $(UV) venv --quiet --python "$$python" .venv; \
	fi
	@echo "Installing the locked packages into .venv (the first time takes minutes, by your network)"
	@$(UV) pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock
	@$(UV) pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
	@touch $@

# pip's --target also works with a Python that its distribution manages; a venv brings pip where there is none.
.tools/bin/uv:
	@$(find_python); \
	echo "Fetching uv $(UV_VERSION) into .tools"; \
	if "$$python" -m pip --version >/dev/null 2>&1; then pip="$$python -m pip"; \
	elif "$$python" -m venv .tools/pip >/dev/null 2>&1; then pip=.tools/pip/bin/pip; \
	else \
	  rm -rf .tools; \
	  echo "make: $$python has no pip to fetch uv with. Install one of pip ('apt install python3-pip'" >&2; \
	  echo "make: on Debian, '$$python -m ensurepip' elsewhere) or uv itself, then call make again." >&2; \
	  exit 1; \
	fi; \
	$$pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
	  --upgrade --target .tools uv==$(UV_VERSION)
