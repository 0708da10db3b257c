{{- define "oscarfed.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "oscarfed.selector" -}}
app.kubernetes.io/name: oscarfed
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: control-plane
{{- end -}}

{{- define "oscarfed.etcdSelector" -}}
app.kubernetes.io/name: oscarfed
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: etcd
{{- end -}}

{{- define "oscarfed.labels" -}}
app.kubernetes.io/part-of: oscarfed
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "oscarfed.backupSelector" -}}
app.kubernetes.io/name: oscarfed
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: backup
{{- end -}}

{{- define "oscarfed.restoreSelector" -}}
app.kubernetes.io/name: oscarfed
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: restore
{{- end -}}

{{/* (dict "image" ... "version" ...): the name of an image. */}}
{{- define "oscarfed.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .version }}
{{- end -}}
{{- end -}}

{{- define "oscarfed.etcdName" -}}{{ include "oscarfed.name" . }}-etcd{{- end -}}

{{- define "oscarfed.etcdSetupSelector" -}}
app.kubernetes.io/name: oscarfed
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: etcd-setup
{{- end -}}

{{- define "oscarfed.gatewayName" -}}{{ include "oscarfed.name" . }}-etcd-gateway{{- end -}}

{{- define "oscarfed.gatewaySelector" -}}
app.kubernetes.io/name: oscarfed
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: etcd-gateway
{{- end -}}

{{/* The rule of a network policy that leads to an etcd that is not embedded. */}}
{{- define "oscarfed.etcdEgress" -}}
{{- if eq .Values.etcd.mode "cluster" -}}
- ports: [{port: 2379, protocol: TCP}]
  to:
    - podSelector:
        matchLabels:
          {{- include "oscarfed.etcdSelector" . | nindent 10 }}
{{- else -}}
- ports:
    {{- $ports := list }}
    {{- range .Values.etcd.endpoints }}
    {{- $ports = append $ports (splitList ":" . | last) }}
    {{- end }}
    {{- range uniq $ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end -}}
{{- end -}}

{{/* Ports of the syslog and the collector of traces that no rule of networkPolicy.egress has, which are of TCP. */}}
{{- define "oscarfed.unnamedPorts" -}}
{{- $seen := list -}}
{{- range .Values.networkPolicy.egress }}{{- range .ports }}{{- $seen = append $seen (printf "TCP/%v" .) }}{{- end }}{{- end -}}
{{- range list .Values.config.audit_syslog .Values.tracing.endpoint -}}
{{- $url := urlParse (. | default "") -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (get (dict "http" "80" "https" "443") $url.scheme) -}}
{{- $protocol := ternary "UDP" "TCP" (eq $url.scheme "udp") -}}
{{- $this := printf "%s/%s" $protocol $port -}}
{{- if and $port (not (has $this $seen)) -}}
{{- $seen = append $seen $this }}
- {port: {{ $port }}, protocol: {{ $protocol }}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Client URLs of the members of this chart. */}}
{{- define "oscarfed.etcdEndpoints" -}}
{{- $name := include "oscarfed.etcdName" . -}}
{{- range $i := until 3 -}}
{{- if $i }},{{ end -}}
https://{{ $name }}-{{ $i }}.{{ $name }}.{{ $.Release.Namespace }}.svc:2379
{{- end -}}
{{- end -}}

{{/* What is wrong with the values together. The schema checks each for itself. */}}
{{- define "oscarfed.check" -}}
{{- $v := .Values -}}
{{- if not $v.admin.passwordSecret.name -}}
{{- fail "admin.passwordSecret.name is missing: make a Secret with the administrator's password and name it" -}}
{{- end -}}
{{- if not (or $v.api.tlsSecret $v.api.insecureHTTP) -}}
{{- fail "the API needs TLS: name a Secret in api.tlsSecret, or set api.insecureHTTP=true when an ingress ends TLS" -}}
{{- end -}}
{{- if and $v.api.tlsSecret $v.api.insecureHTTP -}}
{{- fail "api.tlsSecret and api.insecureHTTP exclude each other" -}}
{{- end -}}
{{- if and $v.backup.enabled (not $v.backup.claim) -}}
{{- fail "backup.claim is missing: the PersistentVolumeClaim that backups go to" -}}
{{- end -}}
{{- if and $v.backup.clientSecret (not $v.etcd.clientSecret) -}}
{{- fail "backup.clientSecret is for etcd.clientSecret: with an authority root's certificate is signed for each backup" -}}
{{- end -}}
{{- if and $v.restore.enabled (not $v.restore.claim) -}}
{{- fail "restore.claim is missing: the PersistentVolumeClaim with the backup" -}}
{{- end -}}
{{- if and $v.restore.enabled (eq $v.etcd.mode "external") -}}
{{- fail "restore is for an etcd of the chart: docs/operations.md says how the members of another one are restored" -}}
{{- end -}}
{{- if and $v.restore.enabled (eq $v.etcd.mode "cluster") $v.restore.identity.secret.name -}}
{{- fail "restore.identity is for an embedded etcd: with etcd.mode=cluster the keys are in Secrets" -}}
{{- end -}}
{{- if and $v.podMonitor.enabled $v.networkPolicy.enabled (not $v.networkPolicy.metricsFrom) -}}
{{- fail "networkPolicy.metricsFrom is missing: the peers that are Prometheus, or the network policy lets nobody read what podMonitor names" -}}
{{- end -}}
{{- if and $v.api.ingress.enabled (not $v.api.ingress.host) -}}
{{- fail "api.ingress.host is missing" -}}
{{- end -}}
{{- if and $v.config.restored (ne (int $v.replicas) 1) -}}
{{- fail "config.restored is for one start of one instance: set replicas=1 until it has started" -}}
{{- end -}}
{{- if eq $v.etcd.mode "embedded" -}}
{{- if ne (int $v.replicas) 1 -}}
{{- fail "an embedded etcd has one control plane: set replicas=1, or etcd.mode to external or cluster" -}}
{{- end -}}
{{- else -}}
{{- if not (or $v.etcd.clientSecret $v.etcd.authoritySecret) -}}
{{- fail "etcd.authoritySecret or etcd.clientSecret is missing: the control plane proves itself to etcd by a client certificate" -}}
{{- end -}}
{{- if and $v.etcd.clientSecret $v.etcd.authoritySecret -}}
{{- fail "etcd.authoritySecret and etcd.clientSecret exclude each other: with an authority the control plane signs its own certificate" -}}
{{- end -}}
{{- if and $v.backup.enabled $v.etcd.clientSecret (not $v.backup.clientSecret) -}}
{{- fail "backup.clientSecret is missing: only root may copy etcd, and the certificate in etcd.clientSecret is not root's" -}}
{{- end -}}
{{- if not $v.identity.secret.name -}}
{{- fail "identity.secret.name is missing: all replicas need the same age key (age-keygen)" -}}
{{- end -}}
{{- end -}}
{{- if and (eq $v.etcd.mode "external") (not $v.etcd.endpoints) -}}
{{- fail "etcd.endpoints is empty: name the client URLs of the external etcd" -}}
{{- end -}}
{{- if and (ne $v.etcd.mode "external") $v.etcd.endpoints -}}
{{- fail "etcd.endpoints is for etcd.mode=external" -}}
{{- end -}}
{{- if and (eq $v.etcd.mode "embedded") (or $v.etcd.clientSecret $v.etcd.authoritySecret $v.etcd.ca.configMap) -}}
{{- fail "an embedded etcd makes its own certificates: leave out etcd.authoritySecret, etcd.clientSecret and etcd.ca" -}}
{{- end -}}
{{- if $v.etcd.gateway.enabled -}}
{{- if or (eq $v.etcd.mode "embedded") (not $v.etcd.authoritySecret) -}}
{{- fail "etcd.gateway is for etcd.mode external or cluster, and needs etcd.authoritySecret: an embedded etcd has the same limits by itself" -}}
{{- end -}}
{{- if not $v.etcd.gateway.tlsSecret -}}
{{- fail "etcd.gateway.tlsSecret is missing: clusters verify the gateway's certificate" -}}
{{- end -}}
{{- end -}}
{{- if eq $v.etcd.mode "cluster" -}}
{{- if not $v.etcd.cluster.image -}}
{{- fail "etcd.cluster.image is missing: an image of etcd 3.6.14, 3.7.1 or later" -}}
{{- end -}}
{{- if not (and $v.etcd.cluster.serverSecret $v.etcd.cluster.peerSecret) -}}
{{- fail "etcd.cluster.serverSecret and etcd.cluster.peerSecret are missing: etcd's members need certificates" -}}
{{- end -}}
{{- end -}}
{{- end -}}
