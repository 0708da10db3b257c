#!/usr/bin/env bash
# Runs every fuzz target of the packages given (default: all), one after the other, for
# FUZZTIME each. FUZZ is a pattern for the names of the targets. What a target finds is
# written by go below testdata/fuzz of its package: commit it, it is a seed from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./...

targets=0 failed=()
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "$@")
for package in $packages; do
  if ! list=$(go test -list '^Fuzz' "$package"); then
    echo "$list"
    failed+=("$package (does not compile)")
    continue
  fi
  for target in $(grep -E '^Fuzz' <<<"$list" | grep -E -- "${FUZZ:-.}" || true); do
    targets=$((targets + 1))
    echo "== $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" "$package" </dev/null || failed+=("$package $target")
  done
done

echo "$targets fuzz targets, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ] || printf 'failed: %s\n' "${failed[@]}"
[ "$targets" -gt 0 ] && [ ${#failed[@]} = 0 ]
