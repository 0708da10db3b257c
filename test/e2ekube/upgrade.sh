# From the release before to this one as docs/upgrade.md says: its charts, images and oscarfed make a federation of two
# clusters with a job; the control plane is upgraded, then the syncers; all are rolled back, and upgraded again. At each
# step the federation is ready, what jobs wrote is there, a job runs and a change goes through. Sourced by run.sh.
# shellcheck source=test/e2ekube/clusters.sh
. "$here/clusters.sh"
ctr images import "$previous"/*.tar >/dev/null
namespace=upgrade release=fed name=fed-oscarfed from=$previous join=$previous/oscarfed
create_namespace
controlplane
oscar a 100 oscar-svc-a
oscar c 4000 oscar-svc-c
joined a
joined c
federated a c
summed
first=$id
say "0.1.0 runs, and a job"

# runs VERSION WORKLOAD: its pods are of that version, and ready.
runs() {
  k rollout status "$2" --timeout=$limit >/dev/null
  k get "$2" -o 'jsonpath={.spec.template.spec.containers[0].image}' | has ":$1"
}
# good: the federation is ready, the first job is told, a job runs, and a change goes through.
good() {
  until_shows ready oscarfed get federation sum0 -o 'jsonpath={[0].phase}'
  result "$first"
  summed
  changed
}
upgraded() {
  upgrade
  runs devel "statefulset/$name"
  reached
  good
  say "$1: the control plane"
  for namespace in cluster-a cluster-c; do
    helm upgrade oscar-syncer "$charts/oscar-syncer" --namespace="$namespace" --reset-then-reuse-values >/dev/null
    runs devel deployment/oscar-syncer
  done
  namespace=upgrade
  good
  say "$1: the syncers"
}
upgraded "upgraded"

helm rollback "$release" --namespace="$namespace" >/dev/null
runs 0.1.0 "statefulset/$name"
reached
good
for namespace in cluster-a cluster-c; do
  helm rollback oscar-syncer --namespace="$namespace" >/dev/null
  runs 0.1.0 deployment/oscar-syncer
done
namespace=upgrade
good
say "rolled back"

upgraded "upgraded again"
oscarfed finish-upgrade >/dev/null
good
say "the upgrade is finished"

oscarfed delete sum0 --yes >/dev/null
for namespace in cluster-a cluster-c; do
  nothing kubectl --namespace="oscar-svc-${namespace#cluster-}" get configmaps,jobs --selector=oscar_service -o name
  helm uninstall oscar-syncer --namespace="$namespace" --wait --timeout 5m >/dev/null
done
namespace=upgrade
helm uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
say "uninstalled"
