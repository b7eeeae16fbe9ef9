"""A template, a definition and values with every construct that the first users of the service use."""

from __future__ import annotations

from typing import Any

# `.get()` on mappings, `or`, `is defined`, names in quotes.
TEMPLATE = """\
kind: Job
apiVersion: batch/v1
metadata:
  labels: {mltask: mltask, taskDef: "{{ global.taskDef }}", creator: "{{ global.creator }}",
           application: "{{ global.application }}", release: "{{ global.release }}"}
  name: "{{ global.release }}"
spec:
  template:
    metadata: {labels: {mltask: mltask, release: "{{ global.release }}"}}
    spec:
      nodeSelector: {kops.k8s.io/ml-instance: "true"}
      restartPolicy: Never
      volumes: [{name: work, persistentVolumeClaim: {claimName: "{{ global.release }}"}}]
      containers:
      - name: main
        image: "{{ image.repository }}:{{ image.tag }}"
        imagePullPolicy: "{{ image.pullPolicy or 'Always' }}"
        resources: {limits: {nvidia.com/gpu: 1}}
        volumeMounts: [{name: work, mountPath: "/mount/{{ global.release }}/"}]
        env:
        - {name: STORAGE, value: "/mount/{{ global.release }}/"}
        {% if configs is defined %}
        - name: PROCESSCFG
          valueFrom: {configMapKeyRef: {name: "{{ global.release }}", key: processCfg}}
        {% endif %}
  backoffLimit: 0
---
kind: PersistentVolumeClaim
apiVersion: v1
metadata: {name: "{{ global.release }}"}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: aws-efs
  resources:
    requests:
      {% if resources is defined and resources %}
      storage: "{{ resources.get('storage') or '10Gi' }}"
      {% else %}
      storage: 10Gi
      {% endif %}
{% if configs is defined %}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: "{{ global.release }}", labels: {mltask: mltask}}
data:
  globalCfg: '{{ configs.get("global") }}'
  datasetCfg: '{{ configs.get("dataset") }}'
  processCfg: '{{ configs.get("process") }}'
{% endif %}
"""

DESCRIPTION = """\
taskDef: (Required) Definition
description: (Required) What the job does
name: (Required) Application
creator: (Required) Who asks

endpoints:
  -
    endpoint: (Required) Folder with the data
    type: (Required) dataset
  -
    endpoint: (Optional) Where to report
    type: (Optional) event

process:
  train:
    maxStep: (Optional) Steps, 1000 by default
    saveStep: (Required) Steps between checkpoints
  eval:
    batchSize: (Optional:integer) Batch size
  model:
  export:
    signatureMap: (Required) Signature

resources:
  cpu: (Optional) CPUs, `500m` by default
  memory: (Optional:quantity) Memory, `512Mi` by default
"""

EXAMPLE = """\
taskDef: digits
description: Trains on digits
name: demo
creator: ada
endpoints:
  -
    endpoint: s3://bucket/folder
    type: dataset
  -
    endpoint: http://localhost:8080/v1/callback
    type: event
process:
  train:
    maxStep: 2000
    saveStep: 200
  eval:
    batchSize: 100
  model:
  export:
    signatureMap: predict_images
resources:
  cpu: 2000m
  memory: 2048Mi
"""

SYSTEM = "image:\r\n  pullPolicy: Always\r\n  repository: registry.example.com/team/digits\r\n  tag: cpu"


def definition(**changes: Any) -> dict[str, Any]:
    """Return the body that registers the definition."""
    return {
        "creator": "admin",
        "name": "digits",
        "task_template_name": "digits-task",
        "description": "Digits on CPUs",
        "user_values_description": DESCRIPTION.replace("\n", "\r\n"),
        "user_values_example": EXAMPLE.replace("\n", "\r\n"),
        "system_values": SYSTEM,
        "application": "Production",
        "append_uuid": 0,
        **changes,
    }


def filled(**changes: Any) -> dict[str, Any]:
    """Return valid values for the definition."""
    return {
        "taskDef": "digits",
        "description": "Trains on digits",
        "name": "demo",
        "creator": "ada",
        "endpoints": [
            {"endpoint": "s3://bucket/digits/", "type": "dataset"},
            {
                "endpoint": "https://hooks.example.com/v1/ml/train/callback",
                "type": "event",
                "headers": {"x-api-key": "secret-word"},
            },
        ],
        "process": {
            "train": {"maxStep": 100, "saveStep": 20},
            "eval": {"batchSize": 10},
            "model": {},
            "export": {"signatureMap": "predict_images"},
        },
        "resources": {"cpu": "200m", "memory": "512Mi"},
        **changes,
    }
