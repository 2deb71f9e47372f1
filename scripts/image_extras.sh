#!/bin/sh
# The extras of pyproject.toml that an image has, as options of uv.
case $1 in
agent) echo "--extra agent" ;;
reconciler) echo "--extra reconciler --extra ranktable" ;;
*)
  echo "image_extras.sh: agent or reconciler, not '$1'" >&2
  exit 2
  ;;
esac
