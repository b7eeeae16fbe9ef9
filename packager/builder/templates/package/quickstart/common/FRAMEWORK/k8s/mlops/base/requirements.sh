#!/bin/sh
# Installs the Python packages of a requirements file for the program of the pod, as the pod's user: once for each volume
# at OUTPUT_DIR, into a folder of their digest in .mlpack-packages. A lock lets one of several pods install at a time. What
# a pod leaves that is killed meanwhile is removed. The folder PYTHONPATH of mlops.env becomes a link to the packages. Then
# it runs what the model does before the program, if there is something.
#
# Usage: requirements.sh FILE [COMMAND...]    FILE is below quickstart/scripts
#
# pip itself reads PIP_INDEX_URL and PIP_FIND_LINKS of mlops.env, and looks in the folders `wheels` of the code and of the
# assets. It installs exactly what FILE lists, and only files with the digests in it. Nothing is built: a package without
# a file for this Python fails.
set -eu
file=$MODEL_DIR/quickstart/scripts/$1
shift
for wheels in "$MODEL_DIR/quickstart/scripts/wheels" "$MODEL_DIR/assets/wheels"; do
  [ ! -d "$wheels" ] || PIP_FIND_LINKS="$wheels ${PIP_FIND_LINKS-}"
done
export PIP_FIND_LINKS="${PIP_FIND_LINKS-}"
exec python3 - "$file" "$@" <<'END'
import fcntl, hashlib, os, shutil, signal, subprocess, sys, sysconfig, uuid

PIP = "-m pip install --quiet --no-input --disable-pip-version-check --no-cache-dir --require-hashes --no-deps"
# The first process of a container ignores signals for which it has no handler.
signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
file, *command = sys.argv[1:]
link = os.path.abspath(os.environ["PYTHONPATH"].partition(":")[0])
store = os.path.join(os.path.abspath(os.environ["OUTPUT_DIR"]), ".mlpack-packages")
with open(file, "rb") as stream:
    wanted = stream.read() + f"{sys.version} {sysconfig.get_config_var('EXT_SUFFIX')}".encode()
installed = os.path.join(store, hashlib.sha256(wanted).hexdigest())
try:
    os.makedirs(store, exist_ok=True)
    with open(f"{installed}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(installed):
            part = f"{installed}.part"
            shutil.rmtree(part, ignore_errors=True)
            argv = [sys.executable, *PIP.split(), "--only-binary", ":all:", "--target", part, "--requirement", file]
            if code := subprocess.run(argv, pass_fds=[lock.fileno()]).returncode:  # it holds the lock, too
                sys.exit(code)
            os.rename(part, installed)
    if os.path.realpath(link) != os.path.realpath(installed):
        os.makedirs(os.path.dirname(link), exist_ok=True)
        new = f"{link}.{uuid.uuid4().hex}"
        os.symlink(installed, new)
        os.replace(new, link)
except IsADirectoryError:
    os.unlink(new)
    sys.exit(f"requirements: {link} is a folder: PYTHONPATH in mlops.env must begin with a path that is free")
except OSError as error:
    sys.exit(f"requirements: {error.filename}: {error.strerror}")
if command:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # or the command would read the end of this script
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would, too
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"requirements: {command[0]}: {error.strerror}")
END
