# Three members of etcd beside three control planes: install, which gives etcd its users; a member is killed, another
# loses its volume and takes part again by itself; upgrade of the members; backup, loss of all volumes and restore, which is
# killed midway; once more with all running; uninstall. Sourced by run.sh.
# shellcheck source=test/e2ekube/clusters.sh
. "$here/clusters.sh"
namespace=members release=fed name=fed-oscarfed etcd=fed-oscarfed-etcd from=$tree join=oscarfed
create_namespace
for i in 0 1 2; do volume "etcd-$i" 10Gi; done
for i in 1 2; do volume "control-plane-$i" 10Gi; done
domain=$etcd.$namespace.svc
certificates "$work/server" "$etcd-0.$domain" "$etcd-1.$domain" "$etcd-2.$domain" 127.0.0.1
oscarfed etcd authority --ca-out "$work/authority" >/dev/null
age-keygen -o "$work/identity.age" 2>/dev/null
k create secret generic oscarfed-identity --from-file="$work/identity.age" >/dev/null
k create secret generic oscarfed-etcd-authority --from-file="$work/authority" >/dev/null
for use in server peer; do
  k create secret generic "oscarfed-etcd-$use" --from-file="$work/server" >/dev/null
done
k create configmap etcd-ca --from-file="$work/server/ca.crt" >/dev/null

controlplane --set replicas=3 --set identity.secret.name=oscarfed-identity \
  --set etcd.mode=cluster --set etcd.authoritySecret=oscarfed-etcd-authority \
  --set etcd.ca.configMap=etcd-ca --set etcd.cluster.image=localhost/etcd:test --set 'etcd.cluster.command={/etcd}' \
  --set etcd.cluster.serverSecret=oscarfed-etcd-server --set etcd.cluster.peerSecret=oscarfed-etcd-peer \
  --set etcd.cluster.antiAffinityRequired=false
k wait "job/$etcd-setup-1" --for=condition=Complete --timeout=$limit >/dev/null
say "three members of etcd have users"
register
kept
say "three control planes, and a cluster is registered"

before=$(uid "$etcd-0")
k delete pod "$etcd-0" --grace-period=0 --force >/dev/null 2>&1
replaced "$etcd-0" "$before"
kept
say "a member is killed, and back with its data"

before=$(uid "$etcd-1")
lose "data-$etcd-1" "$etcd-1"
replaced "$etcd-1" "$before"
k logs "$etcd-1" --container=prepare | has 'the member lost its data and is replaced'
kept
say "a member lost its volume, and takes part as another"

upgrade --set etcd.retention=20m
k rollout status "statefulset/$etcd" --timeout=$limit >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
# With what it has now, the new member is a majority with either of the others.
k delete pod "$etcd-2" --grace-period=0 --force >/dev/null 2>&1
api POST /system/clusters '{"cluster_id":"later","endpoint":"https://later.example.org"}' >/dev/null
k rollout status "statefulset/$etcd" --timeout=$limit >/dev/null
say "the members are upgraded, and two of them are enough"

# service NAME MEMORY: a federation of one service, on the cluster that joined.
service() {
  cat >"$work/$1.yaml" <<YAML
functions:
  oscar:
    - oscar-cluster-m: {name: $1, image: localhost/function:test, cpu: "0.1", memory: $2Mi, script: script.sh}
YAML
  oscarfed apply -f "$work/$1.yaml" >/dev/null
}
echo 'true' >"$work/script.sh"
oscar m 4000 oscar-svc-m
joined m
service same 64
service changed 64
claim backups-members
upgrade --set backup.enabled=true --set "backup.schedule=0 0 1 1 *" --set backup.claim=backups-members
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
backup
say "a cluster has joined, two services are ready, and backed up"
api POST /system/clusters '{"cluster_id":"after","endpoint":"https://after.example.org"}' >/dev/null
service changed 65
service new 64

restoring() { upgrade --set restore.enabled=true --set restore.claim=backups-members; }
# restored: the syncer is back by itself; what stands as it did in the backup is ready, what is newer is held and named.
restored() {
  k wait job --selector=app.kubernetes.io/component=restore --for=condition=Complete --timeout=$limit >/dev/null
  nothing find /var/lib -maxdepth 2 -name '.restore-*'
  upgrade --set restore.enabled=false
  k rollout status "statefulset/$etcd" --timeout=$limit >/dev/null
  k rollout status "statefulset/$name" --timeout=$limit >/dev/null
  reached
  kept
  lacks after
  alive m
  until_shows 'changed ahead,new orphan,' oscarfed describe -o 'jsonpath={range .differences[*]}{.service_name} {.kind},{end}'
  until_shows ready oscarfed get federation same -o 'jsonpath={[0].phase}'
  stands changed 65
  stands new 64
}
# stands SERVICE MEMORY: at the OSCAR.
stands() { kubectl --namespace=oscar-svc-m get configmap "$1" -o yaml | has "$2Mi"; }

for set in "$etcd" "$name"; do k scale "statefulset/$set" --replicas=0 >/dev/null; done
for i in 0 1 2; do
  k wait pod "$etcd-$i" --for=delete --timeout=$limit >/dev/null
  lose "data-$etcd-$i"
done
# The restore of the first member is killed when it has read half of the backup: more does not come.
file=/var/lib/backups-members/oscarfed
mv "$file" "$file.whole"
mkfifo --mode=644 "$file"
{ head --bytes=$(($(stat --format=%s "$file.whole") / 2)) "$file.whole"; exec sleep infinity; } >"$file" &
writer=$!
restoring
until_shows snapshot find /var/lib -maxdepth 3 -path '*/.restore-*/snapshot'
mv "$file.whole" "$file"
k delete "$(k get pods --selector=app.kubernetes.io/component=restore -o name | grep -- '-restore-[0-9]*-0-')" --grace-period=0 --force >/dev/null 2>&1
kill $writer
wait $writer || true
restored
say "lost all three volumes, and restored, by a Job that was killed midway"

oscarfed resolve oscar-cluster-m/changed --keep store >/dev/null
oscarfed resolve oscar-cluster-m/new --keep cluster >/dev/null
until_shows '[]' oscarfed describe -o 'jsonpath={.differences}'
until_shows 64Mi kubectl --namespace=oscar-svc-m get configmap changed -o yaml
service changed 65
# The same upgrade while all run: they are stopped first, and what they had is moved aside.
restoring
restored
[ "$(find /var/lib -maxdepth 2 -name 'data.before-*' | wc -l)" = 3 ]
say "restored once more"

helm uninstall oscar-syncer --namespace=cluster-m --wait --timeout 5m >/dev/null
helm uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
nothing k get statefulsets,deployments,services,cronjobs,jobs,networkpolicies,poddisruptionbudgets -o name
say "uninstalled"
