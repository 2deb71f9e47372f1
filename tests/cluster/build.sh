#!/usr/bin/env bash
# Builds the Kubernetes control plane the integration tests run against, once, into a cache outside the tree:
# etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok, pinned by go.mod and KWOK_VERSION below.
# Prints the directory of the binaries as its only line on stdout. Needs Go >= 1.26 as $GO (default: go on PATH).
# KUBEBUILDER_ASSETS, when set, is printed unchanged and nothing is built.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
KUBE_VERSION=v1.37.2
KWOK_VERSION=v0.8.0
GO=${GO:-go}

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  echo "$KUBEBUILDER_ASSETS"
  exit 0
fi

key=$(cat "$here/go.sum" "$here/build.sh" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/npu-warden/cluster
bin=$cache/$key
if [ -e "$bin/.complete" ]; then
  echo "$bin"
  exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9 # two test runs on one machine build once
if [ ! -e "$bin/.complete" ]; then
  # A half-built directory never gets its final name: the binaries are moved there whole.
  work=$(mktemp -d "$cache/build.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "building the test control plane (kubernetes $KUBE_VERSION), about 10 minutes on 2 cores, once" >&2
  cd "$here"
  # Without the version in the binary, clients take it for v0.0.0 and misbehave.
  ver="-X k8s.io/component-base/version.gitVersion=$KUBE_VERSION -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
  "$GO" build -trimpath -buildvcs=false -ldflags "-s -w $ver" -o "$work/" \
    k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
    k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kubectl ./cmd/etcd >&2
  # kwok has a dependency graph of its own, so it is not in this module.
  GOBIN="$work" GOFLAGS=-trimpath "$GO" install -ldflags "-s -w" "sigs.k8s.io/kwok/cmd/kwok@$KWOK_VERSION" >&2
  touch "$work/.complete"
  rm -rf "$bin"
  mv "$work" "$bin"
fi
echo "$bin"
