#!/usr/bin/env bash
# Finds the Chromium that tests drive. On Debian it is installed when it is missing and we
# are root. The tests take the first of these names that there is.
set -euo pipefail

for program in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$program" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing Chromium for the tests of browser pages (apt-get install chromium)"
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null </dev/null || true
fi
command -v chromium >/dev/null || {
  echo "tests of browser pages: there is no chromium. Install it, or run this on Debian as root" >&2
  exit 1
}
