#!/usr/bin/env bash
# tools/tool.sh NAME: builds a tool that tests or releases run, once for each version, and prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  helm) mod=tools/helm.mod module=helm.sh/helm/v4 package=helm.sh/helm/v4/cmd/helm tags= ;;
  # Without service discovery: promtool is here for rules.
  promtool) mod=tools/prometheus.mod module=github.com/prometheus/prometheus package=github.com/prometheus/prometheus/cmd/promtool tags=remove_all_sd ;;
  ko) mod=tools/ko.mod module=github.com/google/ko package=github.com/google/ko tags= ;;
  coredns) mod=tools/coredns.mod module=github.com/coredns/coredns package=github.com/coredns/coredns tags= ;;
  etcdctl | etcdutl) mod=tools/etcd.mod module=go.etcd.io/etcd/$1/v3 package=go.etcd.io/etcd/$1/v3 tags= ;;
  *) echo "usage: tools/tool.sh helm | promtool | ko | coredns | etcdctl | etcdutl" >&2; exit 2 ;;
esac
version=$(awk -v m="$module" '$1 == m && $2 { print $2 }' "$mod")
tool=$PWD/build/tools/$1-$version

mkdir -p build/tools
# Two that want it at the same time build it once.
exec 9>"build/tools/.$1.lock"
flock 9
if [ ! -x "$tool" ]; then
  echo "building $1 $version, once: a few minutes" >&2
  trap 'rm -f "$tool.new"' EXIT
  CGO_ENABLED=0 go build -modfile="$mod" -tags "$tags" -buildvcs=false -trimpath -ldflags '-s -w' -o "$tool.new" "$package" >&2
  mv "$tool.new" "$tool"
fi
echo "$tool"
