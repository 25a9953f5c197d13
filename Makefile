# Two commands do everything: `make run` and `make test`.  The rest is for people who work on tidelog.
#
#   make run      set up (once) and start a broker on 127.0.0.1:9092 with its data in ./data
#                 more arguments: make run ARGS="--port 0 --data /tmp/logs"
#   make test     set up, install the foreign clients the tests drive, run all tests
#                 without those clients: make test PEERS=no
#   make compat-kafka   our clients' tests against a real Apache Kafka, fetched with Maven; skipped where it cannot be
#   make demo     two clusters, front ends, a mirror, Spark loading a lake, and the audit of it all
#   make spark-kills    loads on a Spark cluster whose driver and executors are killed, SPARK_KILLS (20) times
#   make check    format, lint, types, layers
#   make fuzz     malformed and hostile requests for FUZZ_SECONDS (300) instead of a few seconds
#   make sanitize       the kernel compiled with ASan and UBSan, under its tests with SANITIZE_EXAMPLES (300) examples each
#   make hostile  the table of what the worst request of each API costs
#   make simulate SEEDS=1000 FROM=1    the whole cluster in one process, with faults by seed; CI runs a few hundred
#   make mutants    the product broken on purpose, one way at a time: tests or the first 200 seeds have to notice each
#   make chaos    three real brokers under faults for CHAOS_SECONDS (600), with SQLite and with ZooKeeper; writes docs/reliability.md
#   make soak     SOAK_TRANSACTIONS (20000) on three real brokers, with our client and Java's, without faults and with them
#   make bench    tidelog beside Apache Kafka, RabbitMQ, ActiveMQ and NATS, some fifty minutes; writes docs/benchmarks.md.  See benchmarks/README.md
#   make bench-report ARGS="--scale small"    the same, smaller (some minutes) or larger (--scale full)
#   make bench-quick    tidelog alone, in under three minutes, with the change since the last run
#   make bench-parts    the benchmarks of single parts; one of them: make bench-parts BENCH=kernel ARGS="--seconds 0.1"
#   make docs     write the generated reference pages again
#   make constraints    write constraints.txt again, from the versions that are installed
#   make clean    remove everything that the above have made, except ./data

PYTHON ?= python3
ARGS ?=
PEERS ?= yes
FUZZ_SECONDS ?= 300
SANITIZE_EXAMPLES ?= 300
CHAOS_SECONDS ?= 600
SOAK_TRANSACTIONS ?= 20000
SPARK_KILLS ?= 20
SEEDS ?= 1000
TEST_SEEDS ?= 200
FROM ?= 1
BENCH ?= $(filter-out compare quick,$(basename $(notdir $(wildcard benchmarks/*.py))))
WORKERS ?= 2
BIN := .venv/bin
# The versions that the tests have passed with.  Without them: make CONSTRAINTS= …
CONSTRAINTS ?= constraints.txt
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS))

KERNEL := $(wildcard src/tidelog/kernel/*.py src/tidelog/kernel/*.pxd src/tidelog/kernel/*.h src/tidelog/kernel/*.c.in)

.PHONY: constraints run demo test spark-kills compat-kafka check peers bench bench-report bench-quick bench-parts docs fuzz hostile sanitize simulate mutants chaos soak clean

run: .venv/installed
	@exec $(BIN)/tidelog serve $(ARGS)

# Process-level tests measure themselves by progress, not by time, but they want a core each: they run after
# the others, on fewer workers.  Foreign clients leave a socket open now and then, which the garbage collector tells in
# whatever test it runs: there it is printed, everywhere else it is an error.
FOREIGN := -W default::ResourceWarning -W default::pytest.PytestUnraisableExceptionWarning

test: .venv/dev $(if $(filter yes,$(PEERS)),.peers/installed)
	$(BIN)/pytest -q -n $(WORKERS) --ignore=tests/compat --ignore=tests/console --ignore=tests/faults --ignore=tests/fuzz --ignore=tests/metastore --ignore=tests/spark --ignore=tests/testing
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile $(FOREIGN) tests/compat tests/console tests/faults tests/fuzz tests/metastore tests/testing
	$(BIN)/pytest -q -n 0 tests/spark
	$(BIN)/python -m tidelog.testing.simulation --seeds $(TEST_SEEDS) --jobs $(WORKERS)

demo: .venv/dev
	@$(BIN)/python examples/demo.py $(ARGS)

spark-kills: .venv/dev
	TIDELOG_SPARK_KILLS=$(SPARK_KILLS) $(BIN)/pytest -q -s -n 0 tests/spark/test_kills.py

compat-kafka: .venv/dev
	$(BIN)/python scripts/compat_kafka.py $(ARGS)

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/reference.py --check
	$(BIN)/python scripts/dashboard.py --check
	$(BIN)/python scripts/picture.py --check

peers: .peers/installed

bench: bench-report

bench-report: .venv/dev .peers/bench
	$(BIN)/python -u benchmarks/compare.py $(ARGS)

bench-quick: .venv/dev .peers/bench
	$(BIN)/python -u benchmarks/quick.py $(ARGS)

bench-parts: .venv/dev
	mkdir -p benchmarks/results
	for each in $(BENCH); do echo "== $$each"; \
	  $(BIN)/python -u benchmarks/$$each.py $(ARGS) > benchmarks/results/$$each.txt || exit 1; \
	  cat benchmarks/results/$$each.txt; done

docs: .venv/installed
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/dashboard.py
	$(BIN)/python scripts/picture.py

constraints: .venv/dev
	@{ echo "# The versions that the tests have passed with; written by make constraints."; \
	  $(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check; } > constraints.txt

sanitize: .venv/dev
	rm -rf build/sanitized && mkdir -p build/sanitized/tree
	cp -r src setup.py pyproject.toml README.md LICENSE build/sanitized/tree
	rm -f build/sanitized/tree/src/tidelog/kernel/*.so
	TIDELOG_SANITIZE="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all" \
	  $(PIP) --no-deps --no-cache-dir --target build/sanitized/site ./build/sanitized/tree
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	  PYTHONPATH=build/sanitized/site TIDELOG_EXAMPLES=$(SANITIZE_EXAMPLES) \
	  $(BIN)/python -m pytest -q -n 0 -p no:cacheprovider --ignore=tests/kernel/test_twins.py tests/kernel tests/records tests/conformance/test_kernel_requests.py

hostile: .venv/dev
	$(BIN)/python tests/fuzz/hostile_table.py $(ARGS)

fuzz: .venv/dev
	TIDELOG_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/pytest -q -s tests/fuzz

simulate: .venv/dev
	$(BIN)/python -m tidelog.testing.simulation --seeds $(SEEDS) --from $(FROM) --jobs $(WORKERS) $(ARGS)

mutants: .venv/dev
	$(BIN)/python tests/mutants/mutation.py --jobs $(WORKERS) $(ARGS)

chaos: .venv/dev .peers/installed
	for store in sqlite zookeeper; do \
	  $(BIN)/python tests/faults/chaos.py --metastore $$store --seconds $(CHAOS_SECONDS) || exit 1; done

soak: .venv/dev
	$(BIN)/python tests/faults/soak.py --transactions $(SOAK_TRANSACTIONS) $(ARGS)

clean:
	rm -rf .venv .peers build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f src/tidelog/kernel/*.so src/tidelog/kernel/*.c
	find src tests benchmarks scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps: set-up is done again only when what it depends on has changed.

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit("tidelog needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12 run" if sys.version_info < (3, 11) else 0)'
	@echo "Set-up, once: making the virtual environment .venv"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/made pyproject.toml $(wildcard setup.py) $(KERNEL)
	@echo "Set-up, once: compiling the kernel and installing tidelog into .venv, about a minute"
	@$(PIP) -e .
	@$(BIN)/python -c 'from tidelog.kernel import COMPILED; COMPILED or print("The kernel could not be compiled, so it is interpreted: everything works, but slower. With a C compiler: make clean run")'
	@touch $@

.venv/dev: .venv/installed pyproject.toml constraints.txt
	@echo "Set-up, once: installing the tools for checks and tests into .venv"
	@$(PIP) --upgrade "pip>=25.1"
	@$(PIP) --group dev
	@touch $@

.peers/bench: scripts/bench_peers.sh
	scripts/bench_peers.sh
	mkdir -p .peers
	touch $@

.peers/installed: scripts/peers.sh scripts/zookeeper.sh scripts/prometheus.sh scripts/chromium.sh
	scripts/peers.sh
	scripts/zookeeper.sh
	scripts/prometheus.sh
	scripts/chromium.sh
	touch $@
