#!/bin/sh
# Installs what the tests need beyond Python and Java, where that is possible; says so elsewhere.
command -v strace >/dev/null 2>&1 && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -y -qq strace >/dev/null && exit 0
fi
printf 'The tests trace system calls with strace, which is missing.\n  Get it with: apt-get install strace\n' >&2
exit 1
