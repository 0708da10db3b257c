#!/usr/bin/env bash
# Installs on Debian, as root, what a real Kubernetes node runs besides Kubernetes.
set -euo pipefail

packages=(containerd runc containernetworking-plugins iptables conntrack iproute2 curl)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "a node needs ${missing[*]}" >&2
  [ "${E2E_KUBE:-}" = auto ] && exit 0
  exit 1
fi
echo "installing ${missing[*]}"
# Another one's install may hold dpkg's lock for a while. The daemon that containerd brings is not started.
{
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
} >/dev/null </dev/null
