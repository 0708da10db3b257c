#!/usr/bin/env bash
# Puts the OpenID provider that tests run into the folder given, as
# test/openid/package-lock.json says. Node.js and npm are installed on Debian when they
# are missing and we are root.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1

# Debian 12 has Node.js 18.20, Debian 13 has 20.
oldest=18.20
say() { echo "tests of OpenID Connect: $*" >&2; }

missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing ${missing[*]} for the OpenID provider of the tests (apt-get install ${missing[*]})"
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}"; } >/dev/null </dev/null ||
    say "apt-get install ${missing[*]} failed"
  hash -r
fi
for program in node npm; do
  command -v "$program" >/dev/null || {
    say "there is no $program. Install Node.js $oldest or later with npm, or run this on Debian as root"
    exit 1
  }
done
version=$(node --version)
if [ "$(printf '%s\n' "$oldest" "${version#v}" | sort -V | head -n 1)" != "$oldest" ]; then
  say "$(command -v node) is $version, and the provider needs Node.js $oldest or later"
  exit 1
fi

rm -rf "$folder"
mkdir -p "$folder"
cp test/openid/package.json test/openid/package-lock.json "$folder/"
npm --prefix "$folder" ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null </dev/null
