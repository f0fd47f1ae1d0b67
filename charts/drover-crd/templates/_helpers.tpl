{{/* drover-crd.labels are the labels of all definitions. */}}
{{- define "drover-crd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: drover
resources.cattle.io/backup: "true"
clusterctl.cluster.x-k8s.io: ""
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}
