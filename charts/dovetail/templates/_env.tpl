{{- /* The controller's settings: `variable: value`, empty ones left to the default of the program. */}}
{{- define "dovetail.env" -}}
{{- $settings := .Values.settings }}
{{- $env := dict
  "LOG_LEVEL" .Values.logLevel
  "LOG_OUTPUT_PATHS" (join "," .Values.logOutputPaths)
  "LOG_ERROR_OUTPUT_PATHS" (join "," .Values.logErrorOutputPaths)
  "METRICS_PORT" .Values.controller.metrics.port
  "HEALTH_PROBE_PORT" .Values.controller.healthProbe.port
  "KARPENTER_SERVICE" (include "dovetail.fullname" .)
}}
{{- range $name := (include "dovetail.settingNames" . | fromYamlArray) }}
{{- $value := get $settings $name }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
{{- $_ := set $env (include "dovetail.variable" $name) $value }}
{{- end }}
{{- end }}
{{- if .Values.costs.enabled }}
{{- $_ := set $env "COST_STORE" "/var/lib/dovetail/cost.db" }}
{{- $_ := set $env "COST_RETENTION" .Values.costs.retention }}
{{- $_ := set $env "COST_USAGE" .Values.costs.usage }}
{{- $_ := set $env "COST_API_PORT" .Values.costs.apiPort }}
{{- end }}
{{- if .Values.webhook.enabled }}
{{- $_ := set $env "DISABLE_WEBHOOK" "false" }}
{{- $_ := set $env "WEBHOOK_PORT" .Values.webhook.port }}
{{- end }}
{{- $_ := set $env "FEATURE_GATES" (include "dovetail.gates" $settings.featureGates) }}
{{- $awsGates := deepCopy $settings.awsFeatureGates }}
{{- range list "draNVIDIAGPU" "draEFA" }}
{{- $_ := set $awsGates . (or (eq (toString $settings.enableDRA) "true") (eq (toString (get $awsGates .)) "true")) }}
{{- end }}
{{- $_ := set $env "AWS_FEATURE_GATES" (include "dovetail.gates" $awsGates) }}
{{- /* Rendered always, as an explicit false counts. */}}
{{- $_ := set $env "IGNORE_DRA_REQUESTS" (not (include "dovetail.devices" .)) }}
{{- range $name := keys $env | sortAlpha }}
- name: {{ $name }}
  {{- $value := get $env $name }}
  value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end }}

{{- /* Settings that are one variable each, whose name follows from theirs. */}}
{{- define "dovetail.settingNames" -}}
{{- keys (omit .Values.settings "featureGates" "awsFeatureGates" "enableDRA" "ignoreDRARequests") | sortAlpha | toYaml }}
{{- end }}

{{- /* isolatedVPC -> ISOLATED_VPC, reservedENIs -> RESERVED_ENIS, clusterCABundle -> CLUSTER_CA_BUNDLE */}}
{{- define "dovetail.variable" -}}
{{- . | replace "ENIs" "Enis" | replace "VPC" "Vpc" | replace "CAB" "CaB" | snakecase | upper }}
{{- end }}

{{- /* Not empty if nodes are planned for pods that claim devices: as set, or as a gate that is on wants it. */}}
{{- define "dovetail.devices" -}}
{{- with .Values.settings }}
{{- range list .enableDRA .awsFeatureGates.draNVIDIAGPU .awsFeatureGates.draEFA }}
{{- if eq (toString .) "true" }}set{{ end }}
{{- end }}
{{- if eq (toString .ignoreDRARequests) "false" }}set{{ end }}
{{- end }}
{{- end }}

{{- /* Not empty if the scheduler's default spread constraints are set: by the setting, or as Karpenter's chart has it. */}}
{{- define "dovetail.defaultSpreads" -}}
{{- if .Values.settings.schedulerConfig }}set{{ end }}
{{- range .Values.controller.env }}
{{- if and (eq .name "SCHEDULER_CONFIG") (or .value .valueFrom) }}set{{ end }}
{{- end }}
{{- end }}

{{- define "dovetail.gates" -}}
{{- $pairs := list }}
{{- range $name := keys . | sortAlpha }}
{{- $pairs = append $pairs (printf "%s=%v" (include "dovetail.gate" $name) (get $ $name)) }}
{{- end }}
{{- join "," $pairs }}
{{- end }}

{{- /* nodeRepair -> NodeRepair, draEFA -> DRAEFA */}}
{{- define "dovetail.gate" -}}
{{- $start := regexFind "^(dra|.)" . }}
{{- printf "%s%s" (upper $start) (trimPrefix $start .) }}
{{- end }}

{{- /* Fails for settings that contradict each other, in the words of Karpenter's chart. */}}
{{- define "dovetail.contradictions" -}}
{{- $settings := .Values.settings }}
{{- if eq (toString $settings.enableDRA) "true" }}
{{- $given := list }}
{{- if not (kindIs "invalid" $settings.ignoreDRARequests) }}
{{- $given = append $given "settings.ignoreDRARequests" }}
{{- end }}
{{- range list "draNVIDIAGPU" "draEFA" }}
{{- if not (kindIs "invalid" (index $settings.awsFeatureGates .)) }}
{{- $given = append $given (printf "settings.awsFeatureGates.%s" .) }}
{{- end }}
{{- end }}
{{- if $given }}
{{- fail (printf "settings.enableDRA is mutually exclusive with %s: unset them, or unset settings.enableDRA" (join ", " $given)) }}
{{- end }}
{{- end }}
{{- if and (eq (toString $settings.legacyNodeRepair) "true") (eq (toString $settings.featureGates.terminateFirstRepair) "true") }}
{{- fail "settings.legacyNodeRepair can't be combined with settings.featureGates.terminateFirstRepair: the legacy node repair controller doesn't support terminate-first repair" }}
{{- end }}
{{- end }}
