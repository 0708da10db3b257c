# What federation.sh, upgrade.sh and external.sh begin with: a control plane with TLS, two OSCARs that join, a federation
# of them, a job. Sourced by them. $tree is where the charts of a release are, and $join its oscarfed, which prints how a
# cluster joins.

# controlplane [VALUES...]: in the namespace. oscarfed asks it from then on.
controlplane() {
  local address
  volume "$namespace" 10Gi
  "$helm" upgrade --install "$release" "$tree/deploy/helm/oscarfed" --namespace="$namespace" \
    --set admin.passwordSecret.name=oscarfed-admin --set api.tlsSecret=api "$@" >/dev/null
  work=$(mktemp -d)
  address=$(k get service "$name" -o 'jsonpath={.spec.clusterIP}')
  "$programs/certificates" "$work/api" "$name.$namespace.svc" "$address"
  k create secret tls api --cert="$work/api/tls.crt" --key="$work/api/tls.key" >/dev/null
  printf correct-horse-battery-staple >"$work/password"
  export OSCARFED_ENDPOINT=https://$address:8080 OSCARFED_PASSWORD_FILE=$work/password OSCARFED_CA_FILE=$work/api/ca.crt
  export XDG_CONFIG_HOME=$work
  reached
  say "a control plane with TLS"
}
oscarfed() { "$programs/oscarfed" "$@"; }
# reached: the control plane is ready, and kube-proxy has learned it.
reached() {
  k rollout status "statefulset/$name" --timeout=$limit >/dev/null
  until_shows '[' oscarfed get clusters -o json 2>/dev/null
}

# oscar LETTER MILLICORES: an OSCAR with so much free, and with the rights that it has on Kubernetes.
oscar() {
  local namespace=cluster-$1
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
# Kubernetes of its own; here two share one. That of 0.1.0 leaves out the address of OSCAR.
joined() {
  local control=$name.$namespace.svc namespace=cluster-$1
  "$join" cluster join "oscar-cluster-$1" "http://oscar.$namespace.svc:8080" --helm --control-plane "https://$control:8080" >"$work/join-$1.sh"
  sed -i -e "s|--namespace=oscarfed|--namespace=$namespace|" -e "s|^helm |$helm |" \
    -e "s|--values=-|--set=oscar.servicesNamespace=oscar-svc-$1 --set=oscar.endpoint=http://oscar.$namespace.svc:8080 --values=-|" "$work/join-$1.sh"
  (cd "$tree" && bash -e "$work/join-$1.sh") >/dev/null
  k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
}

# federated COORDINATOR WORKER: two clusters by their letters, of which the worker has room for jobs, and their federation.
federated() {
  local letter
  oscar "$1" 100
  oscar "$2" 4000
  for letter in "$1" "$2"; do joined "$letter"; done
  for letter in "$1" "$2"; do until_shows true oscarfed get cluster "oscar-cluster-$letter" -o 'jsonpath={[0].alive}'; done
  say "two clusters have joined"
  coordinator=$1 worker=$2
  cat >"$work/sum.yaml" <<YAML
functions:
  oscar:
    - oscar-cluster-$1:
        name: sum0
        image: localhost/function:test
        cpu: "0.5"
        memory: 64Mi
        script: script.sh
        federation:
          topology: mesh
          delegation: load-based
          members:
            - {type: oscar, cluster_id: oscar-cluster-$2, service_name: sum1}
YAML
  echo 'true' >"$work/script.sh"
  oscarfed apply -f "$work/sum.yaml" >/dev/null
  kubectl --namespace="oscar-svc-$1" get configmap sum0 >/dev/null
  kubectl --namespace="oscar-svc-$2" get configmap sum1 >/dev/null
  say "a federation of two"
}

# summed: a job whose pod runs on the cluster that has room, and what it wrote.
summed() {
  id=$(echo '{"numbers":[1,2,3.5]}' | oscarfed job submit sum0 -f - -o 'jsonpath={.id}')
  until_shows succeeded oscarfed job get "$id" -o 'jsonpath={.state}'
  result "$id"
}
# result JOB: it ran on the cluster that has room, and what it wrote is there.
result() {
  [ "$(oscarfed job get "$1" -o 'jsonpath={.place.cluster_id}')" = "oscar-cluster-$worker" ]
  oscarfed job logs "$1" | has 'the sum is 6.5'
}
# changed: a change of the federation goes through, on both clusters.
memory=64
changed() {
  memory=$((memory + 1))
  sed -i "s/memory: .*/memory: ${memory}Mi/" "$work/sum.yaml"
  oscarfed apply -f "$work/sum.yaml" >/dev/null
  kubectl --namespace="oscar-svc-$coordinator" get configmap sum0 -o yaml | has "${memory}Mi"
  kubectl --namespace="oscar-svc-$worker" get configmap sum1 -o yaml | has "${memory}Mi"
}
