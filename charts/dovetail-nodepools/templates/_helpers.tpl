{{- define "nodepools.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The class that a pool names, as group, kind and name: given so, or by its name alone. */}}
{{- define "nodepools.classRef" -}}
{{- $ref := .pool.nodeClassRef | default "default" }}
{{- if not (kindIs "string" $ref) }}
{{- $ref | toYaml }}
{{- else if hasKey .root.Values.kwokNodeClass $ref }}
{{- dict "group" "karpenter.kwok.sh" "kind" "KWOKNodeClass" "name" $ref | toYaml }}
{{- else }}
{{- $known := concat (keys .root.Values.ec2NodeClass) .root.Values.externalNodeClasses | sortAlpha }}
{{- if not (has $ref $known) }}
{{- fail (printf "nodePool.%s.nodeClassRef: there is no class %q; the values have %s. Add it to ec2NodeClass, or to externalNodeClasses if it is made elsewhere" .name $ref ($known | join ", " | default "none")) }}
{{- end }}
{{- dict "group" "karpenter.k8s.aws" "kind" "EC2NodeClass" "name" $ref | toYaml }}
{{- end }}
{{- end }}

{{- /* Requirements: the API's own list, or a map of label to values or to {operator: values}. */}}
{{- define "nodepools.requirements" -}}
{{- if kindIs "slice" . }}
{{- toYaml . }}
{{- else }}
{{- $list := list }}
{{- range $key := keys (. | default dict) | sortAlpha }}
{{- $wanted := get $ $key }}
{{- if not (kindIs "map" $wanted) }}
{{- $wanted = dict "In" $wanted }}
{{- end }}
{{- range $operator := keys (omit $wanted "minValues") | sortAlpha }}
{{- $item := dict "key" $key "operator" $operator }}
{{- if not (has $operator (list "Exists" "DoesNotExist")) }}
{{- $values := get $wanted $operator }}
{{- $values = ternary $values (list $values) (kindIs "slice" $values) }}
{{- $_ := set $item "values" (include "nodepools.texts" $values | fromYamlArray) }}
{{- end }}
{{- if and $wanted.minValues (eq $operator "In") }}
{{- $_ := set $item "minValues" $wanted.minValues }}
{{- end }}
{{- $list = append $list $item }}
{{- end }}
{{- end }}
{{- toYaml $list }}
{{- end }}
{{- end }}

{{- /* Numbers and true or false as text, without exponents: labels and tags hold nothing else. */}}
{{- define "nodepools.text" -}}
{{- ternary . (toJson .) (kindIs "string" .) }}
{{- end }}

{{- define "nodepools.texts" -}}
{{- range . }}
- {{ include "nodepools.text" . | quote }}
{{- end }}
{{- end }}

{{- define "nodepools.textMap" -}}
{{- range $key, $value := . }}
{{ $key | quote }}: {{ include "nodepools.text" $value | quote }}
{{- end }}
{{- end }}

{{- /* Selector terms: as the API has them, or one term for a map of tags, one for each in a list of such maps. */}}
{{- define "nodepools.terms" -}}
{{- if .terms }}
{{- toYaml .terms }}
{{- else }}
{{- range (ternary .tags (list .tags) (kindIs "slice" .tags)) }}
- tags:
    {{- include "nodepools.textMap" . | trim | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Images: as the API has them; or ids, a name, tags; or the newest of the family. */}}
{{- define "nodepools.images" -}}
{{- $terms := .class.amiSelectorTerms | default dict }}
{{- if kindIs "slice" $terms }}
{{- toYaml $terms }}
{{- else if $terms }}
{{- range $terms.ids }}
- id: {{ . | quote }}
{{- end }}
{{- if or $terms.name $terms.tags }}
{{- $term := dict }}
{{- with $terms.name }}{{ $_ := set $term "name" . }}{{ end }}
{{- with $terms.tags }}{{ $_ := set $term "tags" (include "nodepools.textMap" . | fromYaml) }}{{ end }}
{{ toYaml (list $term) }}
{{- end }}
{{- else if .class.amiFamily }}
- alias: {{ printf "%s@latest" (lower .class.amiFamily) }}
{{- else }}
{{- fail (printf "ec2NodeClass.%s: give amiSelectorTerms, such as [{alias: al2023@v20250101}], or amiFamily for its newest image" .name) }}
{{- end }}
{{- end }}
