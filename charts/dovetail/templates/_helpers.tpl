{{- define "dovetail.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dovetail.fullname" -}}
{{- $name := include "dovetail.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "dovetail.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dovetail.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dovetail.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "dovetail.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Labels and annotations of an object; a dict of `context` and, where there are more, `annotations`. */}}
{{- define "dovetail.metadata" -}}
labels:
  {{- include "dovetail.labels" .context | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .context.Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dovetail.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "dovetail.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- /* The image. Values taken over from Karpenter may name Karpenter's: that one is left aside, digest included. */}}
{{- define "dovetail.image" -}}
{{- $image := .Values.controller.image }}
{{- if hasSuffix "karpenter/controller" $image.repository }}
{{- $image = dict "repository" "dovetail" }}
{{- end }}
{{- $tag := $image.tag | default .Chart.AppVersion }}
{{- with $image.digest }}
{{- printf "%s:%s@%s" $image.repository $tag . }}
{{- else }}
{{- printf "%s:%s" $image.repository $tag }}
{{- end }}
{{- end }}

{{- /* Pod anti-affinity without a selector is meant against our own pods. */}}
{{- define "dovetail.affinity" -}}
{{- $selector := dict "matchLabels" (include "dovetail.selectorLabels" . | fromYaml) }}
{{- $affinity := deepCopy .Values.affinity }}
{{- range ((dig "podAntiAffinity" dict $affinity).requiredDuringSchedulingIgnoredDuringExecution | default list) }}
{{- if not .labelSelector }}
{{- $_ := set . "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- range ((dig "podAntiAffinity" dict $affinity).preferredDuringSchedulingIgnoredDuringExecution | default list) }}
{{- if not .podAffinityTerm.labelSelector }}
{{- $_ := set .podAffinityTerm "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- /* Spread constraints, over our own pods unless they say otherwise. */}}
{{- define "dovetail.topologySpread" -}}
{{- $selector := dict "matchLabels" (include "dovetail.selectorLabels" . | fromYaml) }}
{{- $constraints := list }}
{{- range .Values.topologySpreadConstraints }}
{{- $constraints = append $constraints (merge (deepCopy .) (dict "labelSelector" $selector)) }}
{{- end }}
{{- toYaml $constraints }}
{{- end }}

{{- /* Not empty if the controller converts between versions; an observer does not. */}}
{{- define "dovetail.webhook" -}}
{{- if and .Values.webhook.enabled (not .Values.settings.observe) }}on{{ end }}
{{- end }}

{{- /* The Secret with the webhook's certificate. */}}
{{- define "dovetail.certificate" -}}
{{- printf "%s-cert" (include "dovetail.fullname" .) }}
{{- end }}
