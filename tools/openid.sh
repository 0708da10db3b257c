#!/usr/bin/env bash
# Puts the OpenID provider that tests run into the folder given, as
# test/openid/package-lock.json says, and on Linux a Node.js when the machine's is too old
# for it (Debian 12 has 18, Debian 13 has 20). Debian's own Node.js and npm are installed
# when they are missing and we are root.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1

# The first of version 20 with all that the provider needs.
oldest=20.12
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
own=--omit=optional
version=$(node --version)
if [ "$(printf '%s\n' "$oldest" "${version#v}" | sort -V | head -n 1)" != "$oldest" ]; then
  case $(uname -sm) in
    "Linux x86_64" | "Linux aarch64") own=--include=optional ;;
    *)
      say "$(command -v node) is $version, and the provider needs Node.js $oldest or later"
      exit 1
      ;;
  esac
  echo "Node.js here is $version, and the OpenID provider of the tests needs $oldest: it gets one of its own"
fi

rm -rf "$folder"
mkdir -p "$folder"
cp test/openid/package.json test/openid/package-lock.json "$folder/"
npm --prefix "$folder" ci "$own" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null </dev/null
if [ "$own" = --include=optional ]; then
  ln -s "$(cd "$folder" && echo node_modules/node-linux-*/bin/node)" "$folder/node"
fi
