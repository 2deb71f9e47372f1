#!/usr/bin/env bash
# Brings what a fresh machine lacks, and nothing it has.
#   bootstrap.sh uv     uv alone (make demo, make check)
#   bootstrap.sh all    also redis-server, a C compiler, openssl, setpriv and Chromium, by apt (make test)
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/npu-warden
packages=()

has() { command -v "$1" >/dev/null 2>&1; }
has_uv() { has uv || [ -x "$cache/tools/bin/uv" ]; }

if [ "${1:-all}" = all ]; then
  has redis-server || packages+=(redis-server)
  has cc || packages+=(gcc libc6-dev)
  has openssl || packages+=(openssl)
  has setpriv || packages+=(util-linux)
  has chromium || has chromium-browser || has google-chrome || packages+=(chromium fonts-dejavu-core)
  [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || packages+=(ca-certificates)
fi
# The interpreter of a bare Debian has no ensurepip, and pip outside a virtual environment is refused (PEP 668).
if ! has_uv && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  packages+=(python3 python3-venv)
fi

if [ ${#packages[@]} -gt 0 ]; then
  if ! has apt-get || [ "$(id -u)" != 0 ]; then
    echo "missing on this machine: ${packages[*]} (Debian names); install them, or run this as root where apt-get is" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -yq --no-install-recommends "${packages[@]}" </dev/null
fi

if ! has_uv; then
  python3 -m venv "$cache/tools"
  "$cache/tools/bin/pip" install --quiet --disable-pip-version-check 'uv>=0.8'
fi
