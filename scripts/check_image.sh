#!/bin/bash
# Runs what an image would run, without a container engine: the root of scripts/image_root.sh, in a mount namespace whose
# file systems are read-only but for what the manifest mounts, under the image's user, the reconciler without capabilities and
# without a way to get any. Not covered: the base image, the layers, the container runtime.
#   check_image.sh agent|reconciler DIRECTORY    (root of an image in DIRECTORY, made if missing; needs root and unshare)
set -euo pipefail
target=$1 root=$2
if [ "${3:-}" != inside ]; then
  [ -x "$root/bin/npu-warden" ] || "$(dirname "$0")/image_root.sh" "$target" "$root"
  exec unshare --mount --propagation private "$0" "$target" "$root" inside
fi

# An interpreter below a home directory (uv, pyenv) is out of reach of other users: here it is shown at its place, alone.
interpreter=$("$root/bin/python" -c 'import sys; print(sys.base_prefix)')
if [[ $interpreter == "$HOME"/* ]]; then
  kept=$(mktemp -d)
  mount --bind "$interpreter" "$kept"
  mount -t tmpfs -o mode=755 tmpfs "$HOME"
  mkdir -p "$interpreter"
  mount --bind "$kept" "$interpreter"
  mount -o remount,bind,ro "$interpreter"
  mount -o remount,ro "$HOME"
fi
work=$(mktemp -d)
mount -t tmpfs -o mode=755 tmpfs "$work"
mkdir "$work/etc" "$work/state"
free_port=$("$root/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
if [ "$target" = agent ]; then
  printf '[http]\nlisten = "127.0.0.1:%s"\n[paths]\nstate_dir = "%s/state"\n' "$free_port" "$work" >"$work/etc/agent.toml"
  as=(setpriv --pdeathsig KILL)
else
  printf '[http]\nlisten = "127.0.0.1:%s"\n[kube]\nkubeconfig = "kubeconfig"\n' "$free_port" >"$work/etc/reconciler.toml"
  cat >"$work/etc/kubeconfig" <<'K'
{"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
 "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}], "users": [{"name": "x", "user": {}}]}
K
  as=(setpriv --reuid 65532 --regid 65532 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs --pdeathsig KILL)
fi
logs=$(mktemp -d)
mount -t tmpfs -o mode=700 tmpfs "$logs"
log=$logs/log
# Read-only, everything but the agent's state; the log is the shell's own.
mount --bind "$work/state" "$work/state"
mount -o remount,bind,ro "$work"
for place in / /tmp /var /opt; do
  mountpoint -q "$place" && mount -o remount,bind,ro "$place"
done
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/nonexistent
cd /
fail() {
  echo "check_image.sh $target: $1" >&2
  cat "$log" >&2
  exit 1
}
"${as[@]}" /bin/sh -c 'echo > /tmp/written' 2>/dev/null && fail "the file system is writable: nothing is checked"
"${as[@]}" "$root/bin/npu-warden" --version
"${as[@]}" "$root/bin/npu-warden" "$target" --config "$work/etc/$target.toml" >"$log" 2>&1 &
daemon=$!
alive() { "$root/bin/python" -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$free_port/livez', timeout=2)" 2>/dev/null; }
for _ in $(seq 100); do
  alive && break
  kill -0 "$daemon" 2>/dev/null || fail "it ended by itself"
  sleep 0.2
done
alive || fail "/livez does not answer"
kill -TERM "$daemon"
code=0
wait "$daemon" || code=$?
[ "$code" = 0 ] || fail "it ended with code $code"
grep -i 'read-only file system\|permission denied\|Traceback' "$log" && fail "it wanted to write, or broke"
echo "$target: starts, answers and ends, read-only, as user $([ "$target" = agent ] && echo 0 || echo 65532)"
