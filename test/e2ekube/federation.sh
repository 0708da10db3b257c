# Two OSCARs, each with a syncer by the command that `cluster join --helm` prints, one of them as docs/operations.md says: a
# federation, a job in a pod of
# Kubernetes on the cluster that has room, and what it wrote; a job that fails; each pod is killed; upgrade and rollback of
# a syncer; a cluster is removed; uninstall, which keeps what a syncer knows. Sourced by run.sh.
# shellcheck source=test/e2ekube/clusters.sh
. "$here/clusters.sh"
namespace=federation release=fed name=fed-oscarfed from=$tree join=oscarfed
create_namespace
controlplane
oscar d 100 oscar-svc
oscar b 4000 oscar-svc-b
page operations.md "Kubernetes" 1 >"$work/said" 2>/dev/null
sed -n '/^kubectl --namespace/,$p' "$work/said" >"$work/join.sh" # below what kubectl says
synced d oscarfed
joined b
federated d b oscar-svc
summed
nothing kubectl --namespace=oscar-svc get jobs -o name
say "a job ran where there is room, and its output is read from here"

id=$(echo '{"numbers":[]}' | oscarfed job submit sum0 -f - -o 'jsonpath={.id}')
until_shows failed oscarfed job get "$id" -o 'jsonpath={.state}'
oscarfed job get "$id" -o yaml | has 'exit code 3'
say "a job that fails says how"

for namespace in oscarfed cluster-b; do
  k delete pod --selector=app.kubernetes.io/instance=oscar-syncer --grace-period=0 --force >/dev/null 2>&1
  k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
done
namespace=federation
before=$(uid "$name-0")
k delete pod "$name-0" --grace-period=0 --force >/dev/null 2>&1
replaced "$name-0" "$before"
reached
summed
say "each pod is killed, and a job runs"

namespace=cluster-b
helm upgrade oscar-syncer "$charts/oscar-syncer" --namespace="$namespace" --reuse-values --set podAnnotations.upgraded=yes >/dev/null
k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
helm rollback oscar-syncer --namespace="$namespace" >/dev/null
k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
summed
say "a syncer is upgraded and rolled back"

oscarfed cluster remove oscar-cluster-b --yes --timeout=5m >/dev/null
nothing kubectl --namespace=oscar-svc-b get configmaps --selector=oscar_service -o name
kubectl --namespace=oscar-svc get configmap sum0 >/dev/null
oscarfed delete sum0 --yes >/dev/null
nothing kubectl --namespace=oscar-svc get configmaps,jobs --selector=oscar_service -o name
say "a cluster is removed, and the federation deleted"

for namespace in oscarfed cluster-b; do
  helm uninstall oscar-syncer --namespace="$namespace" --wait --timeout 5m >/dev/null
  [ -n "$(k get persistentvolumeclaims -o name)" ]
done
namespace=federation
helm uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
[ -n "$(k get persistentvolumeclaims -o name)" ]
say "uninstalled; what they know is kept"
