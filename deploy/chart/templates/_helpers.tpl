{{/* The name of the objects of the chart. */}}
{{- define "federate.name" -}}
{{ .Values.nameOverride | default "federate-sync" | trunc 50 | trimSuffix "-" }}
{{- end }}
{{/* The name of the ServiceAccount. */}}
{{- define "federate.account" -}}
{{ .Values.serviceAccount.name | default (include "federate.name" .) }}
{{- end }}
