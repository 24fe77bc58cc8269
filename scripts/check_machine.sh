#!/bin/sh
# Says what this machine lacks, and how to get it. Used by the Makefile before it sets up.
python="${PYTHON:-python3}"

missing() {
    printf 'Tidegauge needs %s.\n  Get it with: %s\n' "$1" "$2" >&2
    exit 1
}

newer="apt-get install python3.11-venv or a later one, then make PYTHON=python3.11"
command -v "$python" >/dev/null 2>&1 ||
    missing "Python 3.11 or newer; there is no '$python'" "apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "Python 3.11 or newer, not $("$python" -V 2>&1)" "$newer"
# Debian packs what makes virtual environments apart, for each version of Python.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    missing "the modules venv and ensurepip of '$python'" "apt-get install python$version-venv"
fi

# Which Java apt has differs; the default is 17 or newer wherever Python is 3.11 or newer.
runtime="apt-get install default-jre-headless${JAVA_HOME:+, then unset JAVA_HOME}"
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
command -v "$java" >/dev/null 2>&1 ||
    missing "Java 17 or newer for Spark; there is no '$java'" "$runtime"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1)
major="${version%%[!0-9]*}"
[ "${major:-0}" -ge 17 ] ||
    missing "Java 17 or newer for Spark, not ${version:-an unknown version}" "$runtime"
