{{- /* The name of the release is enough if it contains the name of the chart. A name that is cut ends
with a hash, because the names of two releases may differ only at their ends. */ -}}
{{- define "replicator.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains "replicator" $name) }}{{ $name = printf "%s-replicator" $name }}{{ end -}}
{{- if gt (len $name) 50 }}{{ printf "%s-%s" ($name | trunc 43 | trimSuffix "-") (sha256sum $name | trunc 6) }}{{ else }}{{ $name }}{{ end -}}
{{- end }}

{{- define "replicator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "replicator.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "replicator.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is empty: name your image, for example --set image.repository=REGISTRY/replicator" $image.repository -}}
{{- if $image.digest }}{{ $repository }}@{{ $image.digest }}{{ else }}{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "replicator.config" -}}
{{- required "config is empty: give your configuration, for example --set-file config=replicator.yaml" .Values.config -}}
{{- end }}

{{- /* The labels of all pods of the release. Selectors of one component add its label. */ -}}
{{- define "replicator.selector" -}}
app.kubernetes.io/name: replicator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "replicator.labels" -}}
{{ include "replicator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The pod of a component. It takes a dict: root, component, args, resources. */ -}}
{{- define "replicator.pod" -}}
{{- $ := .root -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- include "replicator.selector" $ | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  annotations:
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    # A changed configuration restarts the pods one by one.
    checksum/config: {{ printf "%s\n%s" (include "replicator.config" $) $values.google.externalAccount | sha256sum | quote }}
spec:
  serviceAccountName: {{ include "replicator.serviceAccount" $ }}
  automountServiceAccountToken: false
  # A clean stop takes up to 20 s for pages, checkpoints and leases, and 5 s for open HTTP requests.
  terminationGracePeriodSeconds: 60
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532 # makes projected tokens readable
    seccompProfile: { type: RuntimeDefault }
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "replicator.selector" $ | nindent 10 }}
          app.kubernetes.io/component: {{ .component }}
  containers:
    - name: replicator
      image: {{ include "replicator.image" $ | quote }}
      {{- with $values.image.pullPolicy }}
      imagePullPolicy: {{ . }}
      {{- end }}
      args:
        {{- toYaml .args | nindent 8 }}
      env:
        - name: REPLICATOR_HTTP_LISTEN
          value: ":8080"
        - name: MEMORY_LIMIT_MIB
          valueFrom:
            resourceFieldRef: { containerName: replicator, resource: limits.memory, divisor: 1Mi }
        # One million bytes per MiB of the limit, which is 95 % of the limit. The rest is for memory
        # that GOMEMLIMIT does not count.
        - name: GOMEMLIMIT
          value: $(MEMORY_LIMIT_MIB)000000
        {{- with $values.aws.roleArn }}
        - name: AWS_ROLE_ARN
          value: {{ . | quote }}
        - name: AWS_WEB_IDENTITY_TOKEN_FILE
          value: /var/run/secrets/aws/token
        - name: AWS_ROLE_SESSION_NAME
          valueFrom:
            fieldRef: { fieldPath: metadata.name }
        {{- end }}
        {{- if $values.google.externalAccount }}
        - name: GOOGLE_APPLICATION_CREDENTIALS
          value: /etc/google/external-account.json
        {{- end }}
        {{- with $values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - { name: http, containerPort: 8080 }
      # A process serves nothing until it has checked every table in both clouds and created missing
      # ones. Each takes seconds.
      startupProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 180
      # Health never depends on a cloud, so an outage of a cloud does not restart the pods.
      livenessProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 5
        timeoutSeconds: 5
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: config, mountPath: /etc/replicator, readOnly: true }
        {{- if $values.aws.roleArn }}
        - { name: aws-token, mountPath: /var/run/secrets/aws, readOnly: true }
        {{- end }}
        {{- if $values.google.externalAccount }}
        - { name: google-token, mountPath: /var/run/secrets/google, readOnly: true }
        - { name: google-federation, mountPath: /etc/google, readOnly: true }
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "replicator.name" $ }} }
    {{- if $values.aws.roleArn }}
    - name: aws-token
      projected:
        sources:
          - serviceAccountToken: { audience: sts.amazonaws.com, expirationSeconds: 3600, path: token }
    {{- end }}
    {{- if $values.google.externalAccount }}
    - name: google-token
      projected:
        sources:
          - serviceAccountToken:
              audience: {{ include "replicator.googleAudience" $ }}
              expirationSeconds: 3600
              path: token
    - name: google-federation
      configMap: { name: {{ include "replicator.name" $ }}-google }
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* The audience of the token that Google exchanges, from the federation file, so that both agree. */ -}}
{{- define "replicator.googleAudience" -}}
{{- $account := fromJson .Values.google.externalAccount -}}
{{- if ne (dig "type" "" $account) "external_account" }}{{ fail "google.externalAccount is not JSON of type external_account: create it with gcloud iam workload-identity-pools create-cred-config" }}{{ end -}}
{{- if ne (dig "credential_source" "file" "" $account) "/var/run/secrets/google/token" }}{{ fail "google.externalAccount reads another file than the pods have: set credential_source.file to /var/run/secrets/google/token" }}{{ end -}}
https:{{ $account.audience }}
{{- end }}
