#!/bin/sh
# Installs PostgreSQL's server for the tests where it is missing and can be installed: on Debian and Ubuntu, as root.
# Where it cannot, says so and succeeds: the tests that need it are skipped, with this reason.
set -eu

for server in /usr/lib/postgresql/*/bin/postgres; do
    [ -x "$server" ] && exit 0
done
if command -v postgres >/dev/null && command -v initdb >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "PostgreSQL is not installed and cannot be installed from here (needs apt-get and root):" \
        "its tests will be skipped" >&2
    exit 0
fi
echo "installing PostgreSQL's server for the tests ..." >&2
export DEBIAN_FRONTEND=noninteractive
# No cluster of its own: the tests make theirs in a temporary folder.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" \
    >/etc/postgresql-common/createcluster.conf
apt-get install -y -qq --no-install-recommends postgresql >/dev/null || {
    apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null
} || echo "installing PostgreSQL failed: its tests will be skipped" >&2
