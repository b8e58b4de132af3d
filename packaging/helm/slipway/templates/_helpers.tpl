{{- define "slipway.name" -}}
{{- if contains "slipway" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-slipway" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "slipway.image" -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}{{ else }}{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}{{ end }}
{{- end }}

{{- define "slipway.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end }}
{{- end }}

{{- /* Refuses values with which the server would not start, or would lose data. */ -}}
{{- define "slipway.check" -}}
{{- $values := .Values -}}
{{- if not $values.image.repository }}{{ fail "Set image.repository to where you pushed the image of the release. There is no published image yet." }}{{ end }}
{{- if not $values.publicUrl }}{{ fail "Set publicUrl to the address at which agents and people reach Slipway, like https://slipway.example." }}{{ end }}
{{- if not $values.adminToken.existingSecret }}{{ fail "Set adminToken.existingSecret to a secret with an admin token of at least 24 characters." }}{{ end }}
{{- if not (or $values.tls.existingSecret $values.trustedProxies) }}{{ fail "Set tls.existingSecret, or trustedProxies if a proxy terminates TLS. Slipway sends no credentials over plain HTTP." }}{{ end }}
{{- if and (gt (int $values.replicas) 1) (not $values.database.existingSecret) }}{{ fail (printf "%d replicas need an external PostgreSQL: set database.existingSecret, or replicas to 1. The embedded database belongs to one replica." (int $values.replicas)) }}{{ end }}
{{- if and $values.database.existingSecret (not $values.keys.existingSecret) }}{{ fail "Set keys.existingSecret: with an external database nothing in the pod is kept, and every replica needs the same key file." }}{{ end }}
{{- if and $values.serviceMonitor.enabled (not $values.serviceMonitor.token.existingSecret) }}{{ fail "Set serviceMonitor.token.existingSecret to a secret with a token of the role viewer. /metrics needs one." }}{{ end }}
{{- $minimum := add (ternary (int $values.drainSeconds) 0 (not (empty $values.database.existingSecret))) 45 }}
{{- if lt (int $values.terminationGracePeriodSeconds) (int $minimum) }}{{ fail (printf "Set terminationGracePeriodSeconds to at least %d: drainSeconds with an external database, and 45 s in which the server stops." (int $minimum)) }}{{ end }}
{{- end }}

{{- /* What the server and its init container have in common. */ -}}
{{- define "slipway.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- end }}
