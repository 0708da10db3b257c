#!/usr/bin/env bash
# Builds the web page into api/ui/dist, from api/ui and api/openapi.yaml. With --check it builds
# elsewhere and says whether api/ui/dist is what the source gives. With --install it only installs
# what the page is built and tested with, in build/ui.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null || {
  echo "the web page is built with npm: install Node.js 20 or later" >&2
  exit 1
}
work=build/ui
mkdir -p "$work"
cp api/ui/{package.json,package-lock.json,tsconfig.json,build.mjs} "$work/"
cp api/openapi.yaml build/
rm -rf "$work/src"
cp -r api/ui/src "$work/src"

if ! cmp -s "$work/package-lock.json" "$work/node_modules/.built-from"; then
  echo "installing what the web page is built with (npm ci)"
  (cd "$work" && npm ci --no-audit --no-fund --ignore-scripts --silent)
  cp "$work/package-lock.json" "$work/node_modules/.built-from"
fi
if [ "${1:-}" = --install ]; then exit 0; fi
cd "$work"
npx --no-install openapi-typescript ../openapi.yaml -o src/api/schema.d.ts >/dev/null
npx --no-install tsc --noEmit
if [ "${1:-}" = --check ]; then
  node build.mjs dist >/dev/null
  diff -r dist ../../api/ui/dist || {
    echo "api/ui/dist is not what its source gives: run make ui" >&2
    exit 1
  }
else
  node build.mjs ../../api/ui/dist
fi
