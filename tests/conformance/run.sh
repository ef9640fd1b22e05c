#!/bin/sh
# Runs MCP's conformance suite against the daemon as a client, one scenario after the other, as some measure time:
#   tests/conformance/run.sh HERMESD_MCP [REVISION …]
# Ends with 1 at a failure that expected-failures.yaml doesn't name, and at a pass of one that it does name. Needs node with npm, to
# install the suite and its own version of node into target/conformance, and python3.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
folder=$here/../../target/conformance
program=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- 2025-11-25 2026-07-28

mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/installed"; then
    cp "$here/package.json" "$here/package-lock.json" "$folder/"
    (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error)
    cp "$here/package-lock.json" "$folder/installed"
fi

conformance() {
    "$folder/node_modules/node/bin/node" "$folder/node_modules/.bin/conformance" "$@"
}

failed=0
for revision in "$@"; do
    for scenario in $(conformance list --requirements "$revision" |
        sed -n '/^Client scenarios/,$ s/^ *- \([^ ]*\)\( \[client\]\)\{0,1\}$/\1/p'); do
        log=$folder/$(echo "$scenario-$revision" | tr / -).log
        if conformance client --command "python3 '$here/driver.py' '$program'" --scenario "$scenario" \
            --spec-version "$revision" --force --expected-failures "$here/expected-failures.yaml" \
            --output-dir "$folder/results" >"$log" 2>&1; then
            echo "as expected: $scenario at $revision"
        else
            echo "NOT AS EXPECTED: $scenario at $revision, see $log"
            failed=1
        fi
    done
done
exit $failed
