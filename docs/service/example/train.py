"""Fits a line to points, with the configs that the task service passes to every job of its bundled templates.

GLOBALCFG says whose job it is, DATASETCFG where the data is, and PROCESSCFG what to do. Each is a text of JSON.
"""

import json
import os
import random
from pathlib import Path

job = json.loads(os.environ["GLOBALCFG"])
datasets = [item for item in json.loads(os.environ["DATASETCFG"])["endpoints"] if item["type"] == "dataset"]
train = json.loads(os.environ["PROCESSCFG"]).get("train") or {}

steps, rate = int(train.get("maxSteps") or 100), float(train.get("learningRate") or 0.1)
print(
    f"{job['release']}: {steps} steps for {job['creator']}, data from {[item['endpoint'] for item in datasets]}",
    flush=True,
)

random.seed(0)
points = [
    (x, 3 * x + 1 + random.gauss(0, 0.05)) for x in (random.random() for _ in range(200))
]  # the data of a real program
slope = shift = 0.0
for step in range(1, steps + 1):
    errors = [(slope * x + shift - y, x) for x, y in points]
    slope -= rate * sum(2 * error * x for error, x in errors) / len(points)
    shift -= rate * sum(2 * error for error, _ in errors) / len(points)
    loss = sum(error * error for error, _ in errors) / len(points)
    if step % 10 == 0 or step == steps:
        print(json.dumps({"step": step, "loss": round(loss, 6)}), flush=True)  # the page draws these lines

Path(os.environ["STORAGE"], "model.json").write_text(json.dumps({"slope": slope, "shift": shift}), encoding="utf-8")
