#!/bin/sh
# Installs what the tests need beyond Python and Java, where that is possible; says so elsewhere.
packages=""
command -v strace >/dev/null 2>&1 || packages="strace"
command -v postgres >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
    packages="$packages postgresql"
command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || packages="$packages pgbouncer"
command -v haproxy >/dev/null 2>&1 || [ -x /usr/sbin/haproxy ] || packages="$packages haproxy"
command -v wget >/dev/null 2>&1 || packages="$packages wget"
if ! command -v prometheus >/dev/null 2>&1 || ! command -v promtool >/dev/null 2>&1; then
    packages="$packages prometheus"
fi
command -v chromium >/dev/null 2>&1 || packages="$packages chromium"
command -v mvn >/dev/null 2>&1 || packages="$packages maven"
command -v javac >/dev/null 2>&1 || packages="$packages default-jdk-headless"
[ -z "$packages" ] && exit 0

as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1; then
    # Debian would start a cluster on port 5432, and Prometheus on 9090; the tests start their own.
    case "$packages" in
        *prometheus*) $as_root systemctl mask --quiet prometheus.service 2>/dev/null ;;
    esac
    # shellcheck disable=SC2086
    $as_root mkdir -p /etc/postgresql-common/createcluster.d &&
        echo 'create_main_cluster = false' |
        $as_root tee /etc/postgresql-common/createcluster.d/tidegauge.conf >/dev/null &&
        $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null &&
        exit 0
fi
printf 'The tests trace system calls with strace, start PostgreSQL, PgBouncer, HAProxy and Prometheus,\n  fetch a Kafka broker with Maven, and look at pages with Chromium; missing here:%s.\n  Get it with: apt-get install%s\n' " $packages" " $packages" >&2
exit 1
