# Install as docs/operations.md says, ready, answers; its pod is killed, and its data is there after it; upgrade, rollback, drain; backup, loss of
# the volume and restore as the page says; uninstall, which keeps the data. Sourced by run.sh.
namespace=oscarfed release=oscarfed name=oscarfed
volume embedded 20Gi
certificates "$work/api" "$name.$namespace.svc"
for file in crt key; do cp "$work/api/tls.$file" "$work/api.$file"; done
page operations.md "Kubernetes" 0 >/dev/null 2>&1
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
say "installed and ready"

api GET /health >/dev/null
register
kept
say "a cluster is registered"

before=$(uid "$name-0")
k delete pod "$name-0" --grace-period=0 --force >/dev/null 2>&1
replaced "$name-0" "$before"
kept
say "killed, and back with its data"

upgrade --set podAnnotations.upgraded=yes
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
helm rollback "$release" 1 --namespace="$namespace" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "upgraded and rolled back"

kubectl drain node1 --ignore-daemonsets --delete-emptydir-data --timeout=$limit >/dev/null 2>&1
kubectl uncordon node1 >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "drained and back"

page operations.md "Backup" 0 2>/dev/null
claim oscarfed-backups
upgrade --set backup.enabled=true --set "backup.schedule=0 0 1 1 *" --set backup.claim=oscarfed-backups --set "backup.recoveryRecipients={$(cat "$work/recovery.pub")}"
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
backup
say "backed up"

# A cluster that is registered after the backup is not in it.
api POST /system/clusters '{"cluster_id":"later","endpoint":"https://later.example.org"}' >/dev/null
authority=$(sha256sum </var/lib/embedded/data/pki/ca.crt)
restore() {
  page operations.md "Restore" 1 >/dev/null
  k rollout status "statefulset/$name" --timeout=$limit >/dev/null
  kept
  lacks later
}
k scale "statefulset/$name" --replicas=0 >/dev/null
k wait pod "$name-0" --for=delete --timeout=$limit >/dev/null
lose "data-$name-0"
restore
[ "$(sha256sum </var/lib/embedded-again/data/pki/ca.crt)" = "$authority" ] || { echo "clusters would have to join again"; exit 1; }
say "lost its volume, and restored"
# The same upgrade while the control plane runs: it is stopped first, and what it had is moved aside.
restore
ls -d /var/lib/embedded-again/data/etcd.before-* >/dev/null
say "restored once more"

helm get values "$release" --namespace="$namespace" --output=yaml >"$work/values.yaml"
helm uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
k get persistentvolumeclaim "data-$name-0" >/dev/null
nothing k get statefulsets,deployments,services,cronjobs,networkpolicies,poddisruptionbudgets -o name
helm install "$release" "$charts/oscarfed" --namespace="$namespace" --values="$work/values.yaml" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "uninstalled, and installed again with its data"
helm uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
# A cluster joins in a namespace of this name.
kubectl delete namespace "$namespace" --wait --timeout=$limit >/dev/null
