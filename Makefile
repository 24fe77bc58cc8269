# Every target makes its own virtual environment first, from pinned versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VERSION_OF = $(shell $(1) -c 'import sys; print(sys.version)' 2>/dev/null)
# A Python that somebody asks for, and that did not make the environment, makes it anew.
ifneq ($(origin PYTHON),file)
ifneq ($(call VERSION_OF,$(PYTHON)),$(call VERSION_OF,$(BIN)/python))
.PHONY: $(READY)
ANEW := --clear
endif
endif
# Set, it would make each of the many processes compile all modules anew.
export PYTHONDONTWRITEBYTECODE :=

# Databases of tests are in memory where there is room: they outlive processes, and need no disk.
ROOM_KB = $(shell df --output=avail /dev/shm 2>/dev/null | tail -n 1)
IN_MEMORY = $(shell [ "0$(strip $(ROOM_KB))" -gt 4000000 ] && echo TMPDIR=/dev/shm)
# Three workers on two cores, since many tests wait. Each takes a group of tests/groups.py as a whole.
PYTEST = $(IN_MEMORY) $(BIN)/python -m pytest -q --numprocesses=3 --no-loadscope-reorder

.PHONY: setup demo demo-kafka demo-lake test test-all test-rest test-spark test-lake test-orchestrators soak soak-day lint docs bench bench-lake interceptor screenshots serve clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt scripts/check_machine.sh
	@PYTHON="$(PYTHON)" sh scripts/check_machine.sh
	@echo "setting up $(VENV): pinned packages, 1.4 GB, a minute or two"
	$(PYTHON) -m venv $(ANEW) $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,bench,docs,test]'
	@touch $@

demo: setup
	$(BIN)/python -m examples.flights

demo-kafka: setup
	$(BIN)/python -m tests.broker $(BIN)/python -m examples.flights kafka

serve: setup
	$(BIN)/tidegauge serve

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/lint_prose.py

# For every change; the folder of a test says its list.
test: lint
	@sh scripts/install_test_tools.sh
	$(PYTEST) tests/unit tests/property tests/conformance tests/simulation tests/stories

# For main: the rest of all tests.
test-rest: setup
	@sh scripts/install_test_tools.sh
	$(PYTEST) tests/faults tests/acceptance
	$(PYTEST) --on-postgresql tests/unit tests/stories
	$(MAKE) test-spark
	$(MAKE) test-lake

test-all: test test-rest

# A small set of tests on another version of Spark, in an environment of its own.
SPARK ?= 4.1.4
OF_SPARK := .venv-spark-$(SPARK)

$(OF_SPARK)/.ready: pyproject.toml constraints.txt
	@case "$(SPARK)" in 4.[123].*) ;; *) echo "Spark $(SPARK) is not supported: name a version of 4.1, 4.2 or 4.3, such as make test-spark SPARK=4.1.4" >&2; exit 1;; esac
	@PYTHON="$(PYTHON)" sh scripts/check_machine.sh
	@echo "setting up $(OF_SPARK): pinned packages with PySpark $(SPARK), 1.2 GB, a minute or two"
	$(PYTHON) -m venv --clear $(OF_SPARK)
	sed 's/^pyspark==.*/pyspark==$(SPARK)/' constraints.txt > $(OF_SPARK)/constraints.txt
	$(OF_SPARK)/bin/python -m pip install --quiet --constraint $(OF_SPARK)/constraints.txt --editable '.[test-spark]'
	@touch $@

# PySpark 4.1 leaves sockets open, which Python reports as warnings.
test-spark: $(OF_SPARK)/.ready
	@sh scripts/install_test_tools.sh
	$(IN_MEMORY) $(OF_SPARK)/bin/python -m pytest -q --numprocesses=2 --dist=loadfile -m every_spark \
		-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning \
		tests/stories/spark tests/faults/spark tests/unit/spark_source/test_compatibility.py

# Tables: no release of Delta knows Spark 4.3, and none of Iceberg 4.2.
OF_DELTA := .venv-lake
OF_ICEBERG := .venv-lake-iceberg

$(OF_DELTA)/.ready: FORMAT := delta
$(OF_DELTA)/.ready: WITH_SPARK := 4.2.1
$(OF_DELTA)/.ready: tests/lake/delta.pom.xml
$(OF_ICEBERG)/.ready: FORMAT := iceberg
$(OF_ICEBERG)/.ready: WITH_SPARK := 4.1.4
$(OF_ICEBERG)/.ready: tests/lake/iceberg.pom.xml

$(OF_DELTA)/.ready $(OF_ICEBERG)/.ready: pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" sh scripts/check_machine.sh
	@sh scripts/install_test_tools.sh
	@echo "setting up $(@D): pinned packages with PySpark $(WITH_SPARK), and $(FORMAT), 1.3 GB, a minute or two"
	$(PYTHON) -m venv --clear $(@D)
	sed 's/^pyspark==.*/pyspark==$(WITH_SPARK)/' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt --editable '.[test-lake]'
	mvn --batch-mode --quiet --file tests/lake/$(FORMAT).pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)/jars
	@touch $@

# PySpark 4.1 leaves sockets open, which Python reports as warnings. `FORM=--soak` runs the long forms.
PYTEST_OF_LAKE = $(IN_MEMORY) TIDEGAUGE_LAKE_JARS=$(CURDIR)/$(1)/jars $(1)/bin/python -m pytest -q $(FORM) --numprocesses=2 --dist=loadfile \
	-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning tests/lake

test-lake: $(OF_DELTA)/.ready $(OF_ICEBERG)/.ready
	$(call PYTEST_OF_LAKE,$(OF_DELTA))
	$(call PYTEST_OF_LAKE,$(OF_ICEBERG))

demo-lake: $(OF_DELTA)/.ready
	$(OF_DELTA)/bin/python -m examples.flights lake --jars $(OF_DELTA)/jars

# The examples for cron, Airflow and Dagster under the real ones, before a release: an environment for
# each, up to 660 MB from the package index, removed behind it. ORCHESTRATORS="cron" runs that alone.
test-orchestrators: setup
	$(IN_MEMORY) $(BIN)/python -m tests.orchestrators $(ORCHESTRATORS)

# The long forms of what `make test` tries seldom, by other seeds; prints at the end what it tried.
soak: setup
	@sh scripts/install_test_tools.sh
	$(PYTEST) --soak --timeout=3600 --hypothesis-show-statistics
	$(MAKE) test-lake FORM="--soak --timeout=3600"

# Real processes that are killed at random, on a real broker and PostgreSQL: what grows, what is lost.
# Results go to soak-day/; Ctrl-C ends it, and judges what there is. SOAK: further options, see --help.
HOURS ?= 24
SOAK ?=

soak-day: setup
	@sh scripts/install_test_tools.sh
	$(BIN)/python -m tests.soak_day --hours $(HOURS) $(SOAK)

# Not --quiet: warnings that are not shown do not fail the build. The theme advertises its successor.
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "Open site/index.html in a browser; it needs no internet."

bench: setup
	$(BIN)/python -m bench

bench-lake: $(OF_DELTA)/.ready
	TIDEGAUGE_LAKE_JARS=$(CURDIR)/$(OF_DELTA)/jars $(OF_DELTA)/bin/python -m bench tables

# For producers in the JVM, without a change of theirs: examples/kafka_interceptor. Maven fetches Kafka's clients.
INTERCEPTOR := build/tidegauge-kafka-interceptor.jar

interceptor:
	@for tool in javac jar mvn; do command -v $$tool >/dev/null || { echo "make interceptor needs $$tool: install a JDK of version 17 or newer, and Maven (apt-get install default-jdk-headless maven)" >&2; exit 1; }; done
	mvn --batch-mode --quiet --file examples/kafka_interceptor/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/kafka-clients
	javac --release 17 -d build/kafka-interceptor -cp 'build/kafka-clients/*' examples/kafka_interceptor/src/tidegauge/NotingInterceptor.java
	jar --create --file $(INTERCEPTOR) -C build/kafka-interceptor .
	@echo "Put $(INTERCEPTOR) on the class path of the producer, and set interceptor.classes=tidegauge.NotingInterceptor"

# Every view of the page at / on a demo set, light, dark and on a phone: to be looked at.
screenshots: setup
	@sh scripts/install_test_tools.sh
	$(BIN)/python scripts/screenshots.py screenshots

clean:
	rm -rf $(VENV) .venv-spark-* $(OF_DELTA) $(OF_ICEBERG)
