#!/bin/sh
# What an image has beside its base: the code and its dependencies, at the versions and hashes of uv.lock.
#   image_root.sh agent|reconciler DIRECTORY     (uv on PATH or as $UV; $UV_PYTHON = another interpreter)
set -eu
cd "$(dirname "$0")/.."
export UV_PROJECT_ENVIRONMENT="$2" UV_LINK_MODE="${UV_LINK_MODE:-copy}"
# shellcheck disable=SC2046
exec "${UV:-uv}" sync --quiet --locked --no-dev --no-editable --compile-bytecode $(scripts/image_extras.sh "$1")
