#!/usr/bin/env bash
# Runs the tests of the packages given (default: all) and says what failed.
# build/test.json, and build/test-plain.json for what runs without the race detector, keep
# every event, for those who count.
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

# Rare garbage collection saves a quarter of what tests cost.
export GOGC="${GOGC:-400}"

# What tests run besides Go is built before the clock of the tests starts.
for package in "$@"; do
  case $package in
    ./... | ./deploy*) tools/tool.sh helm >/dev/null && tools/tool.sh promtool >/dev/null ;;&
    ./... | ./test/... | ./test/runbook*) tools/tool.sh etcdctl >/dev/null && tools/tool.sh etcdutl >/dev/null ;;
  esac
done

# Where this runs may be a pod: its Kubernetes is none of the tests'.
unset KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT

mkdir -p build
rm -f build/test.json build/test-plain.json

# Some tests wait most of their time: more of them run at once than there are cores, and the
# longest begin first, those that wait beside those that compute. Nobody reads a test's DWARF,
# and `make lint` vets.
cores=$(getconf _NPROCESSORS_ONLN)
if [ "$*" = ./... ]; then
  set -- ./controlplane ./test/ui ./test/history ./test/kube ./test/e2e ./syncer ./internal/boot ./deploy ./test/outages ./test/versions ./internal/cli ./store/access ./store ./test/linear ./...
fi

# run EVENTS ARGUMENTS...: go test with these arguments. Without paths of this folder in what is
# compiled, another clone finds it in Go's cache.
run() {
  local events=$1
  shift
  go tool -modfile=tools/test.mod gotestsum \
    --format pkgname --format-icons text --hide-summary skipped --jsonfile "$events" -- \
    -timeout 30m -p $((cores + 2)) -parallel $((4 * cores)) -ldflags=-w -trimpath -vet=off "$@"
}

# These run without the race detector, which makes them take five times as long: whole
# federations (a sample of them runs with it: TestAHistory, test/e2e), and much work of one
# goroutine.
plain=(
  TestHistories TestTrials                                            # test/history
  TestJobsAreNeitherLostNorStartedTwice                               # test/jobs
  TestAnIdleFederationWritesNothing TestEtcdFullRecoversByItself      # test/e2e
  TestEtcdFullSoftLimitKeepsRoomForDeletions                          # test/e2e
  TestAHundredCreatesAtOnceOverOneOscar                               # test/e2e
  TestWhatMayNotBeSeenAnswersAsIfItDidNotExist                        # test/e2e
  TestEveryPhaseOfTheLargestFederationHasAnEnd                        # controlplane
  TestADefinitionIsWrittenOnce TestTheLargestBatches                  # controlplane
  TestSecretsUpToTheLimitOfADefinition                                # controlplane
  TestAPlanOfTheLargestFederationByAnotherInstance                    # controlplane
  TestBreakIn TestARelistOf20000ServicesIsAnswered                    # store/access
  TestAQueuedJobTakesFewBytesInAMirror TestFullEtcdRecovers           # store
  TestAnEtcdThatStaysNearlyFullTakesDeletions                         # store
  TestTwoRecoverThreeMembersAtOnce TestHangingDefragmentationIsSkipped # store
  TestAFloodDelaysAnothersFirstJobByOnePlace                          # controlplane/jobs
  TestAccountsShareEachClusterByWeight                                # controlplane/jobs
  TestFieldsOfANewerVersionAreDropped                                 # store/record
  TestEveryFieldOfADefinitionHasABound                                # api/oscar
  TestAListOfAnySizeNeedsConstantMemory                               # api/server
)
# So do all tests of these folders: one federation after another, etcd's own code, and programs that are started for
# each command.
whole=(test/faults test/invariants test/model test/restore test/runbook store/storetest/virtual)
for folder in "${whole[@]}"; do
  mapfile -t -O ${#plain[@]} plain < <(grep -hoP '^func \K(Test|Fuzz)\w+(?=\([tf] )' $folder/*_test.go)
done
names="^($(IFS='|'; echo "${plain[*]}"))\$"

status=0
if [ ${#race[@]} = 0 ]; then
  JOBS=5000 run build/test.json "$@" || status=$?
  exit $status
fi

# Their packages, of those that were given.
mapfile -t folders < <(go list -f '{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}' "$@" |
  xargs -r grep -lE "^func (${names:2:-2})\(" | xargs -r dirname | sort -u)
without=
if [ ${#folders[@]} -gt 0 ]; then
  # One thread saves a fifth of what a history costs.
  GOMAXPROCS=1 JOBS=5000 run build/test-plain.json -run "$names" "${folders[@]}" &
  without=$!
fi
# Nothing is left of the whole folders: their programs, the largest, are not linked with it.
given=$(go list -find "$@")
mapfile -t rest < <(echo "$given" | grep -vE "/($(IFS='|'; echo "${whole[*]}"))\$")
# One thread saves a fifth here, too: the race detector compares what happens before what, not what
# happens at once. The checks of unsafe pointers that come with it are off: test/machines alone
# converts any, for system calls.
[ ${#rest[@]} = 0 ] || GOMAXPROCS=1 run build/test.json "${race[@]}" -gcflags=all=-d=checkptr=0 -skip "$names" "${rest[@]}" || status=$?
[ -z "$without" ] || wait "$without" || status=$?
exit $status
