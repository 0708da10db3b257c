#!/usr/bin/env bash
# Runs the tests of the packages given (default: all) and says what failed.
# build/test.json, and build/test-jobs.json for the proof of jobs, keep every event, for
# those who count.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./...

# The race detector needs a C compiler. Without one the tests still run, and it is said.
race=(-race)
if ! command -v "${CC:-gcc}" >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing gcc for the race detector (apt-get install gcc libc6-dev)"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends gcc libc6-dev; } >/dev/null </dev/null || true
  fi
fi
if command -v "${CC:-gcc}" >/dev/null; then
  export CGO_ENABLED=1
else
  echo "no C compiler: the tests run WITHOUT the race detector"
  export CGO_ENABLED=0
  race=()
fi

# With it every process rests a second before it ends; tests start hundreds.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"

# What tests run besides Go is built before the clock of the tests starts.
for package in "$@"; do
  case $package in
    ./... | ./deploy*) tools/tool.sh helm >/dev/null && tools/tool.sh promtool >/dev/null ;;
  esac
done

# Where this runs may be a pod: its Kubernetes is none of the tests'.
unset KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT

mkdir -p build
rm -f build/test.json build/test-jobs.json

# Some tests wait most of their time: more of them run at once than there are cores, and the
# longest begin first, those that wait beside those that compute. Nobody reads a test's DWARF,
# and `make lint` vets.
cores=$(getconf _NPROCESSORS_ONLN)
if [ "$*" = ./... ]; then
  set -- ./controlplane ./test/history ./test/faults ./test/kube ./test/e2e ./internal/cli ./syncer ./store/access ./store \
    ./test/linear ./test/invariants ./store/storetest/virtual ./...
fi

# run EVENTS ARGUMENTS...: go test with these arguments.
run() {
  local events=$1
  shift
  go tool -modfile=tools/test.mod gotestsum \
    --format pkgname --format-icons text --hide-summary skipped --jsonfile "$events" -- \
    -timeout 30m -p $((cores + 2)) -parallel $((4 * cores)) -ldflags=-w -vet=off "$@"
}

# The proof of jobs twice: so many take too long with the race detector.
jobs=
for package in "$@"; do
  case $package in
    ./... | ./test/... | ./test/jobs)
      JOBS=5000 run build/test-jobs.json -count 1 -run TestJobsAreNeitherLostNorStartedTwice ./test/jobs &
      jobs=$!
      ;;
  esac
done

status=0
run build/test.json ${race[@]+"${race[@]}"} "$@" || status=$?
[ -z "$jobs" ] || wait "$jobs" || status=$?
exit $status
