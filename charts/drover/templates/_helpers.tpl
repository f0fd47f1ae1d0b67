{{/* drover.name is the program's name in labels. */}}
{{- define "drover.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* drover.fullname is the name of objects. A release name that contains the chart's name is used alone. */}}
{{- define "drover.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* drover.chart is the chart's name and version in the form of a label. */}}
{{- define "drover.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* drover.systemNamespace is the namespace of Drover's lease, its authority and the objects that it publishes. */}}
{{- define "drover.systemNamespace" -}}drover-system{{- end }}

{{/* drover.union merges a list of maps. If several maps have a key, the last value counts. */}}
{{- define "drover.union" -}}
{{- $all := dict }}
{{- range . }}{{ range $key, $value := . }}{{ $_ := set $all $key $value }}{{ end }}{{ end }}
{{- toYaml $all }}
{{- end }}

{{/* drover.labels are the labels of every object. */}}
{{- define "drover.labels" -}}
{{- $own := dict
  "helm.sh/chart" (include "drover.chart" .)
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/part-of" "drover"
}}
{{- include "drover.union" (list $own (include "drover.selectorLabels" . | fromYaml) .Values.commonLabels) }}
{{- end }}

{{/* drover.podLabels are the labels of the pods. They omit the chart's version: it alone must not replace pods. */}}
{{- define "drover.podLabels" -}}
{{- $own := dict "app.kubernetes.io/part-of" "drover" }}
{{- include "drover.union" (list $own (include "drover.selectorLabels" . | fromYaml) .Values.commonLabels .Values.podLabels) }}
{{- end }}

{{/* drover.selectorLabels select the pods. An upgrade cannot change them. */}}
{{- define "drover.selectorLabels" -}}
app.kubernetes.io/name: {{ include "drover.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: server
{{- end }}

{{/* drover.updateStrategy is the update strategy. With Recreate, Kubernetes refuses the defaults of RollingUpdate. */}}
{{- define "drover.updateStrategy" -}}
{{- $strategy := .Values.updateStrategy | default dict }}
{{- if eq (get $strategy "type") "Recreate" }}{{ $strategy = omit $strategy "rollingUpdate" }}{{ end }}
{{- toYaml $strategy }}
{{- end }}

{{/* drover.annotations are the annotations of an object with their key: the common ones and those in .own. */}}
{{- define "drover.annotations" -}}
{{- with merge (dict) .own .root.Values.commonAnnotations }}
{{- printf "\n  annotations:%s" (toYaml . | nindent 4) }}
{{- end }}
{{- end }}

{{/* drover.serviceAccountName is the service account of the pods. */}}
{{- define "drover.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "drover.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* drover.imageName joins the registry, the repository, and the tag or digest of .image. */}}
{{- define "drover.imageName" -}}
{{- $registry := default .image.registry .root.Values.global.imageRegistry }}
{{- $version := printf ":%s" (default .root.Chart.AppVersion .image.tag) }}
{{- if .image.digest }}{{ $version = printf "@%s" .image.digest }}{{ end }}
{{- if $registry }}{{ printf "%s/" (trimSuffix "/" $registry) }}{{ end }}{{ .image.repository }}{{ $version }}
{{- end }}

{{/* drover.imagePullSecrets is the pods' list of Secrets for pulling images. */}}
{{- define "drover.imagePullSecrets" -}}
{{- $names := list }}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets }}
{{- if kindIs "map" . }}{{ $names = append $names .name }}{{ else }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- with uniq $names }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* drover.tlsSecret is the Secret with the serving certificate. It is empty if Drover creates the certificate. */}}
{{- define "drover.tlsSecret" -}}
{{- if eq .Values.tls.source "secret" }}
{{- required "tls.secretName is required with tls.source=secret: the Secret with tls.crt and tls.key" .Values.tls.secretName }}
{{- else if eq .Values.tls.source "cert-manager" }}
{{- default (printf "%s-tls" (include "drover.fullname" .)) .Values.tls.secretName }}
{{- end }}
{{- end }}

{{/* drover.testable is not empty if a pod of helm test can verify the server's certificate. */}}
{{- define "drover.testable" -}}
{{- if or (ne .Values.tls.source "drover") (not .Values.server.kubeconfig.secretName) }}true{{ end }}
{{- end }}

{{/* drover.admission is not empty if the API server calls the pods. They must run in the management cluster. */}}
{{- define "drover.admission" -}}
{{- if and .Values.admission.enabled (not .Values.server.kubeconfig.secretName) }}true{{ end }}
{{- end }}

{{/*
drover.programs is a CEL list of accounts. They may delete machines of protected clusters and remove finalizers from
these clusters.
*/}}
{{- define "drover.programs" -}}
{{- $names := list (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "drover.serviceAccountName" .)) }}
{{- if eq .Values.server.capi "external" }}
{{- range .Values.admission.clusterAPINamespaces }}{{ $names = append $names (printf "system:serviceaccounts:%s" .) }}{{ end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/*
drover.rules are the rules of a role: the entries of files/rights.yaml under its name whose conditions hold.
A comment above each rule gives its purpose.
*/}}
{{- define "drover.rules" -}}
{{- range index .rules .role }}
{{- $when := get . "when" }}
{{- if and $when (not (hasKey $.when $when)) }}{{ fail (printf "rbac.yaml must define when %q is" $when) }}{{ end }}
{{- if or (not $when) (get $.when $when) }}
# {{ .purpose }}
- apiGroups: {{ toJson .apiGroups }}
  resources: {{ toJson .resources }}
  {{- with get . "resourceNames" }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: {{ toJson .verbs }}
{{- end }}
{{- end }}
{{- end }}

{{/* drover.seconds converts a duration in Go's format to whole seconds. */}}
{{- define "drover.seconds" -}}
{{- $seconds := 0.0 }}
{{- range regexFindAll "[0-9.]+(h|ms|us|ns|m|s)" . -1 }}
{{- $number := float64 (regexFind "^[0-9.]+" .) }}
{{- if hasSuffix "h" . }}{{ $seconds = addf $seconds (mulf $number 3600) }}
{{- else if hasSuffix "m" . }}{{ $seconds = addf $seconds (mulf $number 60) }}
{{- else if not (regexMatch "[mun]s$" .) }}{{ $seconds = addf $seconds $number }}
{{- end }}
{{- end }}
{{- ceil $seconds | int }}
{{- end }}

{{/* drover.check refuses values that conflict. */}}
{{- define "drover.check" -}}
{{- if ne .Release.Namespace (include "drover.systemNamespace" .) }}
{{- fail (printf "install Drover into the namespace drover-system, not %s: Drover needs its lease, its authority and its published objects there (helm install --namespace drover-system --create-namespace)" .Release.Namespace) }}
{{- end }}
{{- include "drover.checkNames" . }}
{{- include "drover.checkPorts" . }}
{{- include "drover.checkReplicas" . }}
{{- if and .Values.service.externalTrafficPolicy (eq .Values.service.type "ClusterIP") }}
{{- fail "service.externalTrafficPolicy is only for service.type NodePort or LoadBalancer, because Kubernetes refuses it for ClusterIP; leave it empty" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (empty .Values.networkPolicy.metricsFrom) (or .Values.metrics.serviceMonitor.enabled .Values.metrics.rules.enabled) }}
{{- fail "networkPolicy.metricsFrom must select Prometheus, with metrics.serviceMonitor.enabled or metrics.rules.enabled: otherwise no pod reaches the metrics, and DroverAbsent fires. For Prometheus in namespace monitoring: --set networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=monitoring; for Prometheus in this namespace: --set-json 'networkPolicy.metricsFrom=[{\"podSelector\":{}}]'" }}
{{- end }}
{{- if and .Values.tls.privateCA (eq .Values.tls.source "drover") }}
{{- fail "tls.privateCA is only for a certificate from a Secret or from cert-manager: with tls.source=drover, machines always get Drover's own authority" }}
{{- end }}
{{- end }}

{{/*
drover.checkNames refuses names and labels that Kubernetes refuses, and labels that break the pods' selectors. The rules
for names of Services are the strictest.
*/}}
{{- define "drover.checkNames" -}}
{{- $name := include "drover.fullname" . }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
{{- $rule := "use lower-case letters, digits and -, start with a letter, and do not end with -" }}
{{- if .Values.fullnameOverride }}
{{- fail (printf "fullnameOverride: %q cannot be the name of a Service: %s" $name $rule) }}
{{- end }}
{{- fail (printf "release %s: the name of the objects would be %q, which cannot be the name of a Service; set fullnameOverride: %s" .Release.Name $name $rule) }}
{{- end }}
{{- range $value := list "commonLabels" "podLabels" }}
{{- range $key := keys (include "drover.selectorLabels" $ | fromYaml) | sortAlpha }}
{{- if hasKey (get $.Values $value | default dict) $key }}
{{- fail (printf "%s must not have %s: the Deployment and the Services select the pods with it" $value $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* drover.checkPorts refuses a port on which a pod would listen twice. */}}
{{- define "drover.checkPorts" -}}
{{- $ports := dict "server.port" .Values.server.port "server.healthPort" .Values.server.healthPort }}
{{- if include "drover.admission" . }}{{ $_ := set $ports "admission.port" .Values.admission.port }}{{ end }}
{{- with .Values.server.profilerAddress }}{{ $_ := set $ports "server.profilerAddress" (regexFind "[0-9]+$" .) }}{{ end }}
{{- $taken := dict }}
{{- range $value, $port := $ports }}
{{- $port := int $port | toString }}
{{- with get $taken $port }}
{{- fail (printf "%s and %s are both port %s: a pod listens on both; choose another port for one of them" . $value $port) }}
{{- end }}
{{- $_ := set $taken $port $value }}
{{- end }}
{{- end }}

{{/* drover.checkReplicas refuses values that allow several leaders, or that kill a replica during its shutdown. */}}
{{- define "drover.checkReplicas" -}}
{{- if not .Values.server.leaderElect }}
{{- if gt (int .Values.replicaCount) 1 }}
{{- fail "server.leaderElect must be true with more than one replica: otherwise all replicas run controllers" }}
{{- end }}
{{- if ne (get (.Values.updateStrategy | default dict) "type") "Recreate" }}
{{- fail "updateStrategy.type must be Recreate with server.leaderElect=false: otherwise the controllers of two versions run at once during an upgrade. Or keep server.leaderElect=true, also for one replica" }}
{{- end }}
{{- end }}
{{- $least := int (include "drover.timeToEnd" .) }}
{{- if le (int .Values.terminationGracePeriodSeconds) $least }}
{{- fail (printf "terminationGracePeriodSeconds must be more than %d, with server.shutdownDelay=%s: otherwise pods are killed during writes, or while machines send requests (docs/high-availability.md)" $least .Values.server.shutdownDelay) }}
{{- end }}
{{- end }}

{{/*
drover.timeToEnd is the maximum number of seconds that a replica takes to shut down. Two sequences run in parallel:
- Endpoints answer for server.shutdownDelay and end the sessions of agents (3). They finish requests of machines (10),
  then those for health and metrics (10).
- Controllers finish a write (30). Cluster API's core writes the statuses that it holds (5) if it is thrifty, which is the
  default. Then the lease is released (5).
Then Drover sends the last traces (5). The numbers come from pkg/cmd (shutdownGrace, giveBackTimeout, traces),
pkg/kube/clients and pkg/kube/capi (requestTimeout, writeTimeout, flushTimeout), and pkg/reach/tunnel.
*/}}
{{- define "drover.timeToEnd" -}}
{{- $delay := int (include "drover.seconds" (toString .Values.server.shutdownDelay)) }}
{{- add 5 (max (add $delay 23) 40) }}
{{- end }}

{{/* drover.serverURL is the address at which machines reach Drover. */}}
{{- define "drover.serverURL" -}}
{{- required "server.url is required: the https address under which machines reach Drover" .Values.server.url }}
{{- end }}

{{/* drover.args are the arguments of the program. Flags with empty values keep their defaults. */}}
{{- define "drover.args" -}}
{{- $v := .Values }}
{{- $image := $v.machines.provisionImage }}
- server
- "--server-url={{ include "drover.serverURL" . }}"
- "--capi={{ $v.server.capi }}"
- "--crds={{ $v.server.crds }}"
- "--leader-elect={{ $v.server.leaderElect }}"
- "--shutdown-delay={{ $v.server.shutdownDelay }}"
- "--cluster-access-verb={{ $v.server.clusterAccessVerb }}"
- "--endpoint-token-life={{ $v.server.endpointTokenLife }}"
- "--log-level={{ $v.server.log.level }}"
- "--log-format={{ $v.server.log.format }}"
- "--bind-address={{ $v.server.bindAddress }}"
- "--port={{ int $v.server.port }}"
- "--ui={{ $v.ui.enabled }}"
- "--health-address=:{{ int $v.server.healthPort }}"
- "--data-dir={{ $v.server.dataDir }}"
- "--admission={{ ternary "host" "off" (ne (include "drover.admission" .) "") }}"
- "--admission-address=:{{ int $v.admission.port }}"
- "--machine-provision-image={{ include "drover.imageName" (dict "root" . "image" $image) }}"
- "--machine-provision-image-pull-policy={{ $image.pullPolicy }}"
- "--cluster-agent-image={{ include "drover.imageName" (dict "root" . "image" $v.image) }}"
- "--delete-machine-on-failure-after={{ $v.machines.deleteOnFailureAfter }}"
- "--bootstrap-token-ttl={{ $v.clusters.bootstrapTokenTTL }}"
- "--registration-token-ttl={{ $v.clusters.registrationTokenTTL }}"
- "--registration-token-grace-period={{ $v.clusters.registrationTokenGracePeriod }}"
- "--registration-commands={{ $v.clusters.registrationCommands }}"
- "--agent-upgrades={{ $v.machines.agentUpgrades }}"
- "--deletion-deadline={{ $v.clusters.deletionDeadline }}"
{{- with $v.clusters.autoscalerImage }}
- "--cluster-autoscaler-image={{ . }}"
{{- end }}
{{- if $v.machines.insecureNodeDrivers }}
- "--insecure-node-drivers"
{{- end }}
{{- range $flag, $value := dict
  "core-writes" $v.server.coreWrites
  "instance-id" $v.server.instanceID
  "assets-dir" $v.server.assetsDir
  "agent-binary" $v.server.agentBinary
  "release-data" $v.server.releaseData
  "tracing-endpoint" $v.server.tracing.endpoint
  "profiler-address" $v.server.profilerAddress
  "system-default-registry" $v.clusters.systemDefaultRegistry
  "system-default-registry-pull-secrets" (join "," $v.clusters.systemDefaultRegistryPullSecrets)
  "system-agent-installer-image" $v.clusters.systemAgentInstallerImage
}}
{{- if $value }}
- {{ printf "--%s=%s" $flag $value | quote }}
{{- end }}
{{- end }}
{{- $limits := list }}
{{- range $name, $number := $v.server.limits }}
{{- $limits = append $limits (printf "%s=%v" $name (ternary (int64 $number) $number (kindIs "float64" $number))) }}
{{- end }}
{{- with $limits }}
- {{ printf "--limits=%s" (join "," .) | quote }}
{{- end }}
{{- if include "drover.tlsSecret" . }}
- "--tls-cert-file=/etc/drover/tls/tls.crt"
- "--tls-key-file=/etc/drover/tls/tls.key"
{{- if $v.tls.privateCA }}
- "--cacerts-file=/etc/drover/tls/ca.crt"
{{- end }}
{{- end }}
{{- if $v.server.configMap }}
- "--config=/etc/drover/config/config.yaml"
{{- end }}
{{- if $v.server.kubeconfig.secretName }}
- "--kubeconfig=/etc/drover/kubeconfig/{{ $v.server.kubeconfig.key }}"
{{- end }}
{{- range $v.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* drover.env are the environment variables of the program. */}}
{{- define "drover.env" -}}
{{- $proxy := .Values.proxy }}
{{- if and (not $proxy.existingSecret) (or $proxy.http $proxy.https) }}
{{- with $proxy.http }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with $proxy.https }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- /*
Every pod has this variable: the kubelet replaces it with the address of the API server. With a kubeconfig, Drover uses
another API server.
*/}}
{{- $direct := without (list $proxy.noProxy (ternary "$(KUBERNETES_SERVICE_HOST)" "" (empty .Values.server.kubeconfig.secretName))) "" }}
- name: NO_PROXY
  value: {{ join "," $direct | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* drover.envFrom are the sources of more environment variables. */}}
{{- define "drover.envFrom" -}}
{{- with .Values.proxy.existingSecret }}
- secretRef:
    name: {{ . | quote }}
{{- end }}
{{- with .Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end }}
