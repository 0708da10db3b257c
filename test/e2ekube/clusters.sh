# What federation.sh, upgrade.sh, external.sh and members.sh begin with: a control plane with TLS, OSCARs that join, a
# federation of two, a job. Sourced by them. $from is where the charts of a release are, and $join its oscarfed, which
# prints how a cluster joins.

# create_namespace: of a control plane, with the administrator's password.
create_namespace() {
  kubectl create namespace "$namespace" >/dev/null
  k create secret generic oscarfed-admin --from-file=password="$work/admin-password" >/dev/null
}
# controlplane [VALUES...]: in the namespace. oscarfed asks it from then on.
controlplane() {
  local address
  volume "$namespace" 10Gi
  helm upgrade --install "$release" "$from/deploy/helm/oscarfed" --namespace="$namespace" \
    --set admin.passwordSecret.name=oscarfed-admin --set api.tlsSecret=api "$@" >/dev/null
  address=$(k get service "$name" -o 'jsonpath={.spec.clusterIP}')
  certificates "$work/api" "$name.$namespace.svc" "$address"
  k create secret tls api --cert="$work/api/tls.crt" --key="$work/api/tls.key" >/dev/null
  export OSCARFED_ENDPOINT=https://$address:8080 OSCARFED_PASSWORD_FILE=$work/admin-password OSCARFED_CA_FILE=$work/api/ca.crt
  export XDG_CONFIG_HOME=$work
  reached
  say "a control plane with TLS"
}
# reached: the control plane is ready, and kube-proxy has learned it.
reached() {
  k rollout status "statefulset/$name" --timeout=$limit >/dev/null
  until_shows '[' oscarfed get clusters -o json 2>/dev/null
}

# oscar LETTER MILLICORES SERVICES: an OSCAR somewhere else, oscar-LETTER.example.org, with so much free, that keeps its
# services in that namespace, and with the rights that it has on Kubernetes. What its users run is held to nothing.
oscar() {
  local name=oscar-$1 namespace=example-org
  kubectl create namespace "$3" >/dev/null
  kubectl label namespace "$3" pod-security.kubernetes.io/enforce=privileged >/dev/null
  certificates "$work/$name" "$name.example.org"
  printf staple-battery-horse >"$work/oscar-password"
  k create secret generic "$name" --from-file="$work/$name" --from-file=password="$work/oscar-password" >/dev/null
  kubectl apply -f - >/dev/null <<YAML
apiVersion: v1
kind: ServiceAccount
metadata: {name: $name, namespace: $namespace}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: oscar, namespace: $3}
rules:
  - {apiGroups: [""], resources: [configmaps, podtemplates, secrets], verbs: [create, update, delete]}
  - {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list]}
  - {apiGroups: [batch], resources: [jobs], verbs: [create, list, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: oscar, namespace: $3}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: oscar}
subjects: [{kind: ServiceAccount, name: $name, namespace: $namespace}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: $name, namespace: $namespace}
spec:
  selector: {matchLabels: {app: $name}}
  template:
    metadata: {labels: {app: $name}}
    spec:
      serviceAccountName: $name
      securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: oscar
          image: localhost/oscar:test
          args:
            - -id=oscar-cluster-$1
            - -services=$3
            - -free=$2
            - -password-file=/etc/oscar/password
            - -tls-cert-file=/etc/oscar/tls.crt
            - -tls-key-file=/etc/oscar/tls.key
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          readinessProbe: {httpGet: {path: /health, port: 8443, scheme: HTTPS}, periodSeconds: 1}
          volumeMounts: [{name: files, mountPath: /etc/oscar, readOnly: true}]
      volumes: [{name: files, secret: {secretName: $name, defaultMode: 0440}}]
---
apiVersion: v1
kind: Service
metadata: {name: $name, namespace: $namespace}
spec: {selector: {app: $name}, ports: [{port: 443, targetPort: 8443}]}
YAML
}

# joined LETTER: a cluster joins from the namespace cluster-LETTER, with services in oscar-svc-LETTER: the printed commands
# are for a cluster that has a Kubernetes of its own; here two share one.
joined() {
  kubectl create namespace "cluster-$1" >/dev/null
  kubectl --namespace="cluster-$1" create secret generic oscar-password --from-file=password="$work/oscar-password" >/dev/null
  "$join" cluster join "oscar-cluster-$1" "https://oscar-$1.example.org" --helm >"$work/join.sh"
  sed -i "s|--namespace=oscarfed|--namespace=cluster-$1|" "$work/join.sh"
  synced "$1" "cluster-$1" --set=oscar.servicesNamespace="oscar-svc-$1"
}

# synced LETTER NAMESPACE [VALUES...]: runs what was printed, which does not know that the certificate of OSCAR is of no
# public authority, and has no address of OSCAR when 0.1.0 printed it.
synced() {
  local namespace=$2
  volume "syncer-$1" 1Gi
  k create configmap oscar-ca --from-file="$work/oscar-$1/ca.crt" >/dev/null
  sed -i "s|--values=-|--set=oscar.endpoint=https://oscar-$1.example.org --set=oscar.ca.configMap=oscar-ca ${*:3} --values=-|" "$work/join.sh"
  (cd "$from" && bash -e "$work/join.sh") >/dev/null
  k rollout status deployment/oscar-syncer --timeout=$limit >/dev/null
}

# alive LETTER...: the syncers of these clusters have a session.
alive() {
  local letter
  for letter; do until_shows true oscarfed get cluster "oscar-cluster-$letter" -o 'jsonpath={[0].alive}'; done
}

# federated COORDINATOR WORKER [SERVICES]: the federation of two clusters that joined, by their letters, of which the worker
# has room for jobs. The coordinator's services are in that namespace.
federated() {
  coordinator=$1 worker=$2 services=${3:-oscar-svc-$1}
  alive "$1" "$2"
  say "two clusters have joined"
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
  kubectl --namespace="$services" get configmap sum0 >/dev/null
  kubectl --namespace="oscar-svc-$2" get configmap sum1 >/dev/null
  say "a federation of two"
}

# summed: a job whose pod runs on the cluster that has room, and what it wrote.
summed() {
  id=$(echo '{"numbers":[1,2,3.5]}' | oscarfed job submit sum0 -f - -o 'jsonpath={.id}')
  until_shows succeeded oscarfed job get "$id" -o 'jsonpath={.state}'
  result "$id"
}
# result JOB: it ran on the cluster that has room, and what it wrote is there, also by a control plane that has just
# started: syncers find it within a minute.
result() {
  [ "$(oscarfed job get "$1" -o 'jsonpath={.place.cluster_id}')" = "oscar-cluster-$worker" ]
  until_shows 'the sum is 6.5' oscarfed job logs "$1"
}
# changed: a change of the federation goes through, on both clusters.
memory=64
changed() {
  memory=$((memory + 1))
  sed -i "s/memory: .*/memory: ${memory}Mi/" "$work/sum.yaml"
  oscarfed apply -f "$work/sum.yaml" >/dev/null
  kubectl --namespace="$services" get configmap sum0 -o yaml | has "${memory}Mi"
  kubectl --namespace="oscar-svc-$worker" get configmap sum1 -o yaml | has "${memory}Mi"
}
