#!/bin/sh
# Software bill of materials of an image, CycloneDX 1.5, from uv.lock: every package with version and hashes.
#   sbom.sh agent|reconciler > sbom.json         (the base image has its own)
set -eu
cd "$(dirname "$0")/.."
# shellcheck disable=SC2046
exec "${UV:-uv}" export --quiet --locked --no-dev $(scripts/image_extras.sh "$1") --format cyclonedx1.5 --preview-features sbom-export
