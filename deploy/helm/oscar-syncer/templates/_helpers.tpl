{{- define "syncer.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Of what is not in a namespace: two releases of one name in two namespaces do not share it. */}}
{{- define "syncer.clusterName" -}}{{ .Release.Namespace }}-{{ include "syncer.name" . }}{{- end -}}

{{- define "syncer.selector" -}}
app.kubernetes.io/name: oscar-syncer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "syncer.labels" -}}
app.kubernetes.io/part-of: oscarfed
app.kubernetes.io/component: syncer
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "syncer.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The one Secret that the syncer may read, in each namespace of services. */}}
{{- define "syncer.tokenSecret" -}}oscarfed-refresh-tokens-kept-by-the-syncer{{- end -}}

{{/* Ports of the addresses among the values that no rule of networkPolicy.egress narrows. One to every pod, {namespaceSelector: {}},
     as among the defaults, narrows none: an address may lead elsewhere. */}}
{{- define "syncer.unnamedPorts" -}}
{{- $seen := list -}}
{{- range $rule := .Values.networkPolicy.egress -}}
{{- range $rule.to -}}
{{- if or .ipBlock .namespaceSelector (hasKey . "podSelector") }}{{- range $rule.ports }}{{- $seen = append $seen (toString .) }}{{- end }}{{- end -}}
{{- end -}}
{{- end -}}
{{- $addresses := concat (list .Values.controlPlane.url .Values.config.api_endpoint .Values.oscar.endpoint .Values.tracing.endpoint) .Values.etcd.endpoints -}}
{{- range .Values.issuers }}{{- $addresses = append $addresses .issuer }}{{- end -}}
{{- range $addresses -}}
{{- $url := urlParse (. | default "") -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (get (dict "http" "80" "https" "443") $url.scheme) -}}
{{- if and $port (not (has $port $seen)) -}}
{{- $seen = append $seen $port }}
- {port: {{ $port }}, protocol: TCP}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is wrong with the values together. The schema checks each for itself. */}}
{{- define "syncer.check" -}}
{{- $v := .Values -}}
{{- if not $v.clusterID -}}
{{- fail "clusterID is missing: the id that `oscarfed cluster join` registered this cluster under" -}}
{{- end -}}
{{- if $v.controlPlane.url -}}
{{- if or $v.etcd.endpoints $v.etcd.clientSecret -}}
{{- fail "controlPlane.url and etcd exclude each other: who joins is told how etcd is reached" -}}
{{- end -}}
{{- if and $v.controlPlane.ca $v.controlPlane.caConfigMap.configMap -}}
{{- fail "controlPlane.ca and controlPlane.caConfigMap exclude each other" -}}
{{- end -}}
{{- else -}}
{{- if not $v.etcd.endpoints -}}
{{- fail "controlPlane.url is missing: `oscarfed cluster join` says it; or name an etcd in etcd.endpoints" -}}
{{- end -}}
{{- if not $v.etcd.clientSecret -}}
{{- fail "etcd.clientSecret is missing: the Secret with this cluster's client certificate" -}}
{{- end -}}
{{- if or $v.controlPlane.ca $v.controlPlane.caConfigMap.configMap $v.controlPlane.joinTokenSecret.name -}}
{{- fail "controlPlane.url is missing" -}}
{{- end -}}
{{- end -}}
{{- if and $v.originStorage.enabled $v.networkPolicy.enabled (not $v.originStorage.from) -}}
{{- fail "originStorage.from is missing: the peers that are OSCAR, or the network policy lets nobody ask for keys" -}}
{{- end -}}
{{- if and $v.podMonitor.enabled $v.networkPolicy.enabled (not $v.networkPolicy.metricsFrom) -}}
{{- fail "networkPolicy.metricsFrom is missing: the peers that are Prometheus, or the network policy lets nobody read what podMonitor names" -}}
{{- end -}}
{{- if not $v.oscar.passwordSecret.name -}}
{{- fail "oscar.passwordSecret.name is missing: the Secret with the password of OSCAR's administrator" -}}
{{- end -}}
{{- end -}}
