#!/bin/sh
# Serves a model with vLLM: the OpenAI API on port 8080, /health, and /metrics for Prometheus. In a LeaderWorkerSet each
# pod has some of the layers, and the leader answers. GPUS is the number of GPUs of a pod.
set -eu
model=${MODEL:-$OUTPUT_DIR/model}
if [ ! -e "$model/config.json" ]; then
  echo "$model has no config.json: MODEL in mlops.env names the folder of the model" >&2
  exit 2
fi
set -- "$model" --served-model-name "$MODEL_NAME" --tensor-parallel-size "$GPUS" \
  --gpu-memory-utilization "$GPU_MEMORY" ${CONTEXT_LENGTH:+--max-model-len "$CONTEXT_LENGTH"}
if [ -n "${LWS_GROUP_SIZE-}" ]; then
  set -- "$@" --pipeline-parallel-size "$LWS_GROUP_SIZE" \
    --nnodes "$LWS_GROUP_SIZE" --node-rank "$LWS_WORKER_INDEX" --master-addr "$LWS_LEADER_ADDRESS"
  [ "$LWS_WORKER_INDEX" = 0 ] || exec vllm serve "$@" --headless
fi
exec vllm serve "$@" --host 0.0.0.0 --port 8080 --shutdown-timeout 100
