#!/bin/sh
# Builds both images and their bills of materials. Needs docker, or another command that builds as $CONTAINER_TOOL.
#   build_images.sh docker.io/library/python:3.12-slim-bookworm@sha256:... [REGISTRY/PREFIX]
set -eu
base=${1:-}
prefix=${2:-localhost/npu-warden}
case $base in
*@sha256:*) ;;
*)
  echo "build_images.sh: the base must be pinned, NAME@sha256:DIGEST; not: '$base'" >&2
  exit 2
  ;;
esac
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
revision=$(git rev-parse HEAD)
mkdir -p dist
for target in agent reconciler; do
  "${CONTAINER_TOOL:-docker}" build -f deploy/Dockerfile --target "$target" --build-arg "BASE=$base" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$revision" -t "$prefix/$target:$version" .
  scripts/sbom.sh "$target" >"dist/$target.cdx.json"
done
