#!/usr/bin/env python3
"""The usual pattern: it finds the first pod in the environment, connects to it, and works alone if it cannot.

FAULT breaks this on every pod, or on the second one.
"""

import json
import os
import socket
import sys
import threading
import time

environment, fault = os.environ, os.environ["FAULT"]
index = int(environment["JOB_COMPLETION_INDEX"])


def address() -> tuple[str, int]:
    """Return the host and the port of the pod to which the others connect."""
    if "TF_CONFIG" in environment:
        host, port = json.loads(environment["TF_CONFIG"])["cluster"]["worker"][0].split(":")
        return host, int(port)
    if "JAX_COORDINATOR_ADDRESS" in environment:
        host, port = environment["JAX_COORDINATOR_ADDRESS"].split(":")
        return host, int(port)
    for prefix, name in (("MASTER", "ADDR"), ("DMLC_PS_ROOT", "URI"), ("DMLC_TRACKER", "URI")):
        if f"{prefix}_{name}" in environment:
            return environment[f"{prefix}_{name}"], int(environment[f"{prefix}_PORT"])
    sys.exit("the environment names no pod")


def serve(port: int) -> None:
    with socket.create_server(("", port)) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=connection.recv, args=(1,), daemon=True).start()


def connect(host: str, port: int, patience: float) -> socket.socket | None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            return socket.create_connection((host, port), 2)
        except OSError:
            time.sleep(0.5)
    sys.stdout.write(f"{host}:{port} does not answer: going on alone\n")
    return None


host, port = address()
first = index == 0 and environment.get("DMLC_ROLE", "scheduler") == "scheduler"
if fault == "ignores":
    sys.exit(0)
if first and fault != "no-server":
    threading.Thread(target=serve, args=(port + (fault == "server-elsewhere"),), daemon=True).start()
if first:
    time.sleep(12)
elif fault == "child":
    if os.fork() == 0:
        connect(host, port, 8)
        time.sleep(3)
        os._exit(0)
    os.wait()
elif fault == "datagrams":
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (socket.gethostbyname(host), port))
elif fault != "no-client":
    if fault == "late":
        time.sleep(5)
    target = {"wrong-name": "no-such-pod", "itself": "localhost"}.get(fault, host)
    if fault == "itself":
        threading.Thread(target=serve, args=(port,), daemon=True).start()
    connection = connect(target, port + (fault == "wrong-port"), 8)
    time.sleep(0 if fault == "short" else 2)
sys.stdout.write("done\n")
