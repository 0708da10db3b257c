# Install, ready, answers; its pod is killed, and its data is there after it; upgrade, rollback, drain; backup, loss of
# the volume and restore; uninstall, which keeps the data. Sourced by run.sh.
namespace=oscarfed release=oscarfed name=oscarfed
restricted
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups, namespace: oscarfed}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}
YAML
volume embedded 20Gi
volume backups 1Gi

install=("$helm" upgrade --install "$release" "$charts/oscarfed" --namespace="$namespace"
  --set admin.passwordSecret.name=oscarfed-admin --set api.insecureHTTP=true
  --set 'etcd.advertise={https://etcd.example.org:2379}')
"${install[@]}" >/dev/null
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

"${install[@]}" --set podAnnotations.upgraded=yes >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
"$helm" rollback "$release" 1 --namespace="$namespace" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "upgraded and rolled back"

kubectl drain node1 --ignore-daemonsets --delete-emptydir-data --timeout=$limit >/dev/null 2>&1
kubectl uncordon node1 >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "drained and back"

key=$(mktemp) && rm "$key" && "$programs/age-keygen" -o "$key" 2>/dev/null
k create secret generic oscarfed-recovery --from-file=recovery.age="$key" >/dev/null
install+=(--set backup.enabled=true --set backup.claim=backups
  --set "backup.recoveryRecipients={$(sed -n 's/^# public key: //p' "$key")}")
rm "$key"
"${install[@]}" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
k create job --from="cronjob/$name-backup" backup >/dev/null
# A job that succeeded is deleted at once; the file appears whole.
timeout "$limit" bash -c 'until [ -e /var/lib/backups/oscarfed ]; do sleep 0.2; done'
k wait job/backup --for=delete --timeout=$limit >/dev/null
say "backed up"

# A cluster that is registered after the backup is not in it.
api POST /system/clusters '{"cluster_id":"later","endpoint":"https://later.example.org"}' >/dev/null
authority=$(sha256sum </var/lib/embedded/data/pki/ca.crt)
restore() {
  "${install[@]}" --set restore.enabled=true --set restore.claim=backups --set restore.identity.secret.name=oscarfed-recovery >/dev/null
  k wait job --selector=app.kubernetes.io/component=restore --for=condition=Complete --timeout=$limit >/dev/null
  "${install[@]}" >/dev/null
  k rollout status "statefulset/$name" --timeout=$limit >/dev/null
  kept
  local clusters
  clusters=$(api GET /system/clusters)
  if has '"cluster_id":"later"' <<<"$clusters"; then
    echo "the store is not that of the backup"
    exit 1
  fi
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

"$helm" uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
k get persistentvolumeclaim "data-$name-0" >/dev/null
nothing k get statefulsets,deployments,services,cronjobs,networkpolicies,poddisruptionbudgets -o name
"${install[@]}" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "uninstalled, and installed again with its data"
"$helm" uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
