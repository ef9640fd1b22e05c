#!/bin/sh
# Installs the real MCP servers of tests/real_servers.rs (npm and PyPI, pinned versions) into a folder:
#   tests/real/install.sh [FOLDER]
# FOLDER is $HERMESD_MCP_REAL_SERVERS, or target/real-servers. Needs node with npm, and python3 with venv.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
folder=${1:-${HERMESD_MCP_REAL_SERVERS:-$here/../../target/real-servers}}
mkdir -p "$folder"
folder=$(CDPATH= cd -- "$folder" && pwd)

# What is installed already, and from the same lists, needs no network.
stamp=$(cat "$here/package-lock.json" "$here/requirements.txt" | cksum)
if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "real servers: $folder is up to date"
    exit 0
fi
rm -f "$folder/stamp"

for tool in npm python3; do
    command -v "$tool" >/dev/null || {
        echo "real servers: $tool is missing" >&2
        exit 1
    }
done

cp "$here/package.json" "$here/package-lock.json" "$folder/"
(cd "$folder" && npm ci --no-audit --no-fund --loglevel=error)
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"

echo "$stamp" >"$folder/stamp"
echo "real servers: installed in $folder"
