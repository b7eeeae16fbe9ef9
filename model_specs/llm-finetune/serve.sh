#!/bin/sh
# Serves the converted model with llama.cpp: the OpenAI API on port 8080, /health, and /metrics for Prometheus.
set -eu
exec llama-server --host 0.0.0.0 --port 8080 --metrics --alias "${MODEL_NAME:-llm-finetune}" --model "$HOME/model.gguf" \
  --ctx-size $((CONTEXT_LENGTH * SLOTS)) --parallel "$SLOTS" --threads "$THREADS"
