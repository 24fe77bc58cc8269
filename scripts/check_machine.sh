#!/bin/sh
# Says what this machine lacks, and how to get it. Used by the Makefile before it sets up.
python="${PYTHON:-python3}"

missing() {
    printf 'Tidegauge needs %s.\n  Get it with: %s\n' "$1" "$2" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    missing "Python 3.11 or newer; there is no '$python'" "apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "Python 3.11 or newer, not $("$python" -V 2>&1)" "apt-get install python3.11, then make PYTHON=python3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    missing "Python's venv module" "apt-get install python3-venv"

java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
command -v "$java" >/dev/null 2>&1 ||
    missing "Java 17 or newer for Spark; there is no '$java'" "apt-get install openjdk-17-jre-headless"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\)[."].*/\1/p;s/.*version "\([0-9]*\)".*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] ||
    missing "Java 17 or newer for Spark, not ${version:-an unknown version}" "apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
