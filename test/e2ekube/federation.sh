# Two OSCARs, each with a syncer by the command that `cluster join --helm` prints: a federation, a job in a pod of
# Kubernetes on the cluster that has room, and what it wrote; a job that fails; each pod is killed; upgrade and rollback of
# a syncer; a cluster is removed; uninstall, which keeps what a syncer knows. Sourced by run.sh.
namespace=federation release=fed name=fed-oscarfed
restricted
volume "federation" 10Gi
"$helm" upgrade --install "$release" "$charts/oscarfed" --namespace="$namespace" \
  --set admin.passwordSecret.name=oscarfed-admin --set api.tlsSecret=api >/dev/null
work=$(mktemp -d)
address=$(k get service "$name" -o 'jsonpath={.spec.clusterIP}')
"$programs/certificates" "$work/api" "$name.$namespace.svc" "$address"
k create secret tls api --cert="$work/api/tls.crt" --key="$work/api/tls.key" >/dev/null
printf correct-horse-battery-staple >"$work/password"
export OSCARFED_ENDPOINT=https://$address:8080 OSCARFED_PASSWORD_FILE=$work/password OSCARFED_CA_FILE=$work/api/ca.crt
export XDG_CONFIG_HOME=$work
oscarfed() { "$programs/oscarfed" "$@"; }
# reached: kube-proxy has learned that the control plane is ready.
reached() { until_shows '"subject"' oscarfed whoami -o json 2>/dev/null; }
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
reached
say "a control plane with TLS"

# oscar LETTER MILLICORES: an OSCAR with so much free, and with the rights that it has on Kubernetes.
oscar() {
  namespace=cluster-$1
  kubectl create namespace "oscar-svc-$1" >/dev/null
  restricted
  k create secret generic oscar-password --from-literal=password=staple-battery-horse >/dev/null
  kubectl apply -f - >/dev/null <<YAML
apiVersion: v1
kind: ServiceAccount
metadata: {name: oscar, namespace: $namespace}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: oscar, namespace: oscar-svc-$1}
rules:
  - {apiGroups: [""], resources: [configmaps, podtemplates, secrets], verbs: [create, update, delete]}
  - {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list]}
  - {apiGroups: [batch], resources: [jobs], verbs: [create, list, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: oscar, namespace: oscar-svc-$1}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: oscar}
subjects: [{kind: ServiceAccount, name: oscar, namespace: $namespace}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: oscar, namespace: $namespace}
spec:
  selector: {matchLabels: {app: oscar}}
  template:
    metadata: {labels: {app: oscar}}
    spec:
      serviceAccountName: oscar
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: oscar
          image: localhost/oscar:test
          args: [-id, oscar-cluster-$1, -services, oscar-svc-$1, -password-file, /etc/oscar/password, -free, "$2"]
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          readinessProbe: {httpGet: {path: /health, port: 8080}, periodSeconds: 1}
          volumeMounts: [{name: password, mountPath: /etc/oscar, readOnly: true}]
      volumes: [{name: password, secret: {secretName: oscar-password}}]
---
apiVersion: v1
kind: Service
metadata: {name: oscar, namespace: $namespace}
spec: {selector: {app: oscar}, ports: [{port: 8080}]}
YAML
  volume "syncer-$1" 1Gi
}

# joined LETTER: runs the printed command. It names the namespace and the services of a cluster that has a
# Kubernetes of its own; here two share one.
joined() {
  namespace=cluster-$1
  oscarfed cluster join "oscar-cluster-$1" "http://oscar.$namespace.svc:8080" --helm \
    --control-plane "https://$name.federation.svc:8080" >"$work/join-$1.sh"
  sed -i -e "s|--namespace=oscarfed|--namespace=$namespace|" -e "s|^helm |$helm |" \
    -e "s|--values=-|--set=oscar.servicesNamespace=oscar-svc-$1 --values=-|" "$work/join-$1.sh"
  (cd "$here/../.." && bash -e "$work/join-$1.sh") >/dev/null
  k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
}
oscar a 100
oscar b 4000
joined a
joined b
for cluster in oscar-cluster-a oscar-cluster-b; do
  until_shows true oscarfed get cluster "$cluster" -o 'jsonpath={[0].alive}'
done
say "two clusters have joined"

cat >"$work/sum.yaml" <<'YAML'
functions:
  oscar:
    - oscar-cluster-a:
        name: sum0
        image: localhost/function:test
        cpu: "0.5"
        memory: 64Mi
        script: script.sh
        federation:
          topology: mesh
          delegation: load-based
          members:
            - {type: oscar, cluster_id: oscar-cluster-b, service_name: sum1}
YAML
echo 'true' >"$work/script.sh"
oscarfed apply -f "$work/sum.yaml" >/dev/null
kubectl --namespace=oscar-svc-a get configmap sum0 >/dev/null
kubectl --namespace=oscar-svc-b get configmap sum1 >/dev/null
say "a federation of two"

# summed: a job whose pod runs on the cluster that has room, and what it wrote.
summed() {
  local id
  id=$(echo '{"numbers":[1,2,3.5]}' | oscarfed job submit sum0 -f - -o 'jsonpath={.id}')
  until_shows succeeded oscarfed job get "$id" -o 'jsonpath={.state}'
  [ "$(oscarfed job get "$id" -o 'jsonpath={.place.cluster_id}')" = oscar-cluster-b ]
  oscarfed job logs "$id" | has 'the sum is 6.5'
}
summed
nothing kubectl --namespace=oscar-svc-a get jobs -o name
say "a job ran where there is room, and its output is read from here"

id=$(echo '{"numbers":[]}' | oscarfed job submit sum0 -f - -o 'jsonpath={.id}')
until_shows failed oscarfed job get "$id" -o 'jsonpath={.state}'
oscarfed job get "$id" -o yaml | has 'exit code 3'
say "a job that fails says how"

for namespace in cluster-a cluster-b; do
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
"$helm" upgrade oscar-syncer "$charts/oscar-syncer" --namespace="$namespace" --reuse-values --set podAnnotations.upgraded=yes >/dev/null
k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
"$helm" rollback oscar-syncer --namespace="$namespace" >/dev/null
k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
summed
say "a syncer is upgraded and rolled back"

oscarfed cluster remove oscar-cluster-b --yes --timeout=5m >/dev/null
nothing kubectl --namespace=oscar-svc-b get configmaps --selector=oscar_service -o name
kubectl --namespace=oscar-svc-a get configmap sum0 >/dev/null
oscarfed delete sum0 --yes >/dev/null
nothing kubectl --namespace=oscar-svc-a get configmaps,jobs --selector=oscar_service -o name
say "a cluster is removed, and the federation deleted"

for namespace in cluster-a cluster-b; do
  "$helm" uninstall oscar-syncer --namespace="$namespace" --wait --timeout 5m >/dev/null
  [ -n "$(k get persistentvolumeclaims -o name)" ]
done
namespace=federation
"$helm" uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
[ -n "$(k get persistentvolumeclaims -o name)" ]
rm -r "$work"
say "uninstalled; what they know is kept"
