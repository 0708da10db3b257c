# A plain etcd of three members that is there before, with users by `oscarfed etcd setup`; three control planes and two
# gateways by the chart; two clusters that join through the gateways, with certificates of one minute. A member and a control
# plane are killed; the node is drained, which disruption budgets stop; certificates end while a syncer runs, and while one
# is away; the gateways are killed. Sourced by run.sh.
# shellcheck source=test/e2ekube/clusters.sh
. "$here/clusters.sh"
namespace=external release=fed name=fed-oscarfed from=$tree join=oscarfed
create_namespace
for i in 1 2; do volume "external-$i" 10Gi; done
made=$work/made hosts=() addresses=() endpoints=() members=()
for i in 0 1 2; do
  volume "external-etcd-$i" 1Gi
  # An address for clients that stays when the pod is another.
  k create service clusterip "etcd-$i" --tcp=2379 >/dev/null
  k set selector service "etcd-$i" "statefulset.kubernetes.io/pod-name=etcd-$i" >/dev/null
  address=$(k get service "etcd-$i" -o 'jsonpath={.spec.clusterIP}')
  hosts+=("$address" "etcd-$i.$namespace.svc" "etcd-$i.etcd.$namespace.svc")
  addresses+=("https://$address:2379") endpoints+=("https://etcd-$i.$namespace.svc:2379")
  members+=("etcd-$i=https://etcd-$i.etcd.$namespace.svc:2380")
done
comma() { local IFS=,; echo "$*"; }
certificates "$made/etcd" "${hosts[@]}" "$name-etcd-client.$namespace.svc"
oscarfed etcd authority --ca-out "$made/users" >/dev/null
age-keygen -o "$made/identity.age" 2>/dev/null
k create secret generic oscarfed-identity --from-file="$made/identity.age" >/dev/null
k create secret generic oscarfed-etcd-authority --from-file="$made/users" >/dev/null
k create configmap etcd-ca --from-file="$made/etcd/ca.crt" >/dev/null
k create secret tls gateway --cert="$made/etcd/tls.crt" --key="$made/etcd/tls.key" >/dev/null
cat "$made/etcd/ca.crt" "$made/users/ca.crt" >"$made/etcd/trusted.crt"
k create secret generic etcd --from-file="$made/etcd" >/dev/null
k apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Service
metadata: {name: etcd}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: etcd}, ports: [{port: 2380}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: etcd}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: etcd}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: etcd}
spec:
  replicas: 3
  serviceName: etcd
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: etcd}}
  template:
    metadata: {labels: {app: etcd}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: etcd
          image: localhost/etcd:test
          args:
            - --name=\$(POD_NAME)
            - --data-dir=/var/lib/etcd/data
            - --initial-cluster=$(comma "${members[@]}")
            - --listen-client-urls=https://0.0.0.0:2379
            - --advertise-client-urls=https://\$(POD_NAME).$namespace.svc:2379
            - --listen-peer-urls=https://0.0.0.0:2380
            - --initial-advertise-peer-urls=https://\$(POD_NAME).etcd.$namespace.svc:2380
            - --listen-metrics-urls=http://0.0.0.0:2381
            - --cert-file=/etc/etcd/tls.crt
            - --key-file=/etc/etcd/tls.key
            - --client-cert-auth
            - --trusted-ca-file=/etc/etcd/trusted.crt
            - --peer-cert-file=/etc/etcd/tls.crt
            - --peer-key-file=/etc/etcd/tls.key
            - --peer-client-cert-auth
            - --peer-trusted-ca-file=/etc/etcd/ca.crt
            - --quota-backend-bytes=4294967296
            - --auto-compaction-mode=periodic
            - --auto-compaction-retention=30m
          env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          readinessProbe: {httpGet: {path: /readyz, port: 2381}, periodSeconds: 2, timeoutSeconds: 5}
          volumeMounts:
            - {name: data, mountPath: /var/lib/etcd}
            - {name: etcd, mountPath: /etc/etcd, readOnly: true}
      volumes: [{name: etcd, secret: {secretName: etcd, defaultMode: 0440}}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
YAML
k rollout status statefulset/etcd --timeout=$limit >/dev/null
until_shows 'etcd is prepared' oscarfed etcd setup --etcd-endpoints "$(comma "${addresses[@]}")" \
  --etcd-ca-file "$made/etcd/ca.crt" --ca-out "$made/users"
say "an etcd of three members has users"

controlplane --set replicas=3 --set identity.secret.name=oscarfed-identity --set etcd.mode=external \
  --set "etcd.endpoints={$(comma "${endpoints[@]}")}" --set etcd.authoritySecret=oscarfed-etcd-authority \
  --set etcd.ca.configMap=etcd-ca --set etcd.gateway.enabled=true --set etcd.gateway.tlsSecret=gateway \
  --set config.cluster_certificate_life=1m --set config.prepare_deadline=1m
k rollout status "deployment/$name-etcd-gateway" --timeout=$limit >/dev/null
oscar e 100 oscar-svc-e
oscar f 4000 oscar-svc-f
joined e
joined f
federated e f
summed
say "a job through the gateways"

# ends: when the certificates end that a syncer got, by its log.
ends() { sed -n 's/.*"ends":"\([^"]*\)".*/\1/p'; }
# syncer LETTER: its log.
syncer() { kubectl --namespace="cluster-$1" logs deployment/oscar-syncer "${@:2}"; }
first=$(syncer f | ends | sed -n 1p)
# past TIME: waits for a time that is not more than a minute away.
past() {
  local left=$(($(date -d "$1" +%s) - $(date +%s)))
  [ $left -le 60 ] || { echo "$1 is $left s away"; return 1; }
  [ $left -lt 0 ] || sleep $((left + 1))
}

before=$(uid etcd-0)
k delete pod etcd-0 --grace-period=0 --force >/dev/null 2>&1
changed
replaced etcd-0 "$before"
before=$(uid "$name-0")
k delete pod "$name-0" --grace-period=0 --force >/dev/null 2>&1
changed
replaced "$name-0" "$before"
say "a member of etcd and a control plane are killed, and changes go through"

syncer e --follow >"$work/away" &
followed=$!
until_shows '"ends"' cat "$work/away"
kubectl --namespace=cluster-e scale deployment/oscar-syncer --replicas=0 >/dev/null
wait $followed
# One of each kind is evicted, and no other before it is back: which it cannot, on the node that is drained.
kinds=(app=etcd app.kubernetes.io/component=control-plane app.kubernetes.io/component=etcd-gateway)
uids() { k get pods --selector="$1" -o 'jsonpath={range .items[*]}{.metadata.uid}{"\n"}{end}' | sort; }
for i in 0 1 2; do uids "${kinds[i]}" >"$work/pods-$i"; done
kubectl drain node1 --pod-selector='app.kubernetes.io/name!=oscar-syncer' --ignore-daemonsets --delete-emptydir-data \
  --timeout=$limit >"$work/drain" 2>&1 &
drain=$!
for pods in etcd- "$name-[0-2]" "$name-etcd-gateway-"; do
  until_shows 'disruption budget' grep "evicting pods/\"$pods" "$work/drain"
done
kill $drain
wait $drain || true
until_shows '[' oscarfed get clusters -o json
until_shows false oscarfed get cluster oscar-cluster-e -o 'jsonpath={[0].alive}'
kubectl uncordon node1 >/dev/null
for workload in statefulset/etcd "statefulset/$name" "deployment/$name-etcd-gateway"; do
  k rollout status "$workload" --timeout=$limit >/dev/null
done
for i in 0 1 2; do
  uids "${kinds[i]}" >"$work/now"
  [ "$(comm -23 "$work/pods-$i" "$work/now" | wc -l)" = 1 ] || { echo "not one pod with ${kinds[i]} was evicted"; cat "$work/drain"; exit 1; }
done
for letter in e f; do kubectl --namespace=example-org rollout status "deployment/oscar-$letter" --timeout=$limit >/dev/null; done
say "a drain evicts one of each kind, and they are back"

past "$first"
past "$(ends <"$work/away" | tail -n 1)"
kubectl --namespace=cluster-e scale deployment/oscar-syncer --replicas=1 >/dev/null
kubectl --namespace=cluster-e rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
until_shows true oscarfed get cluster oscar-cluster-e -o 'jsonpath={[0].alive}'
syncer e | has 'the certificate has ended; it is renewed before anything else'
changed
say "a syncer that was away when its certificate ended is back"

# The other one has run on, and has to connect anew, by a certificate that it got in time.
[ "$(syncer f | ends | sed -n 1p)" = "$first" ]
syncer f | has 'the certificate was renewed'
k delete pod --selector=app.kubernetes.io/component=etcd-gateway --grace-period=0 --force >/dev/null 2>&1
k rollout status "deployment/$name-etcd-gateway" --timeout=$limit >/dev/null
changed
summed
say "both gateways are killed after the first certificates have ended, and the clusters are back"

oscarfed delete sum0 --yes >/dev/null
for letter in e f; do
  nothing kubectl --namespace="oscar-svc-$letter" get configmaps,jobs --selector=oscar_service -o name
  helm uninstall oscar-syncer --namespace="cluster-$letter" --wait --timeout 5m >/dev/null
done
helm uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
nothing k get deployments,networkpolicies,jobs -o name
k delete statefulset/etcd --wait --timeout=$limit >/dev/null
say "uninstalled"
