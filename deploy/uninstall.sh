#!/bin/sh
# Takes the warden out of a cluster and leaves nothing on its nodes.
#   uninstall.sh            the daemons, what they wrote on nodes, then everything of deploy/ with the Recoveries
#   uninstall.sh traces     only what was written on nodes; the reconciler must not run, it would write it again
# Kept: the retry ledger volcano-system/vcjob-fault-npu-cm (AscendJobs that run rely on it), and on the NPU nodes the directory
# /var/lib/npu-warden.      $KUBECTL: another kubectl, with its options.
set -eu
kubectl=${KUBECTL:-kubectl}
here=$(dirname "$0")

traces() {
  for node in $($kubectl get nodes -o name); do
    $kubectl taint nodes "${node#node/}" npuwarden.io/fault- >/dev/null 2>&1 || true # it has none
    $kubectl annotate "$node" npuwarden.io/isolation- npuwarden.io/isolate- npuwarden.io/release- npuwarden.io/drill- \
      npuwarden.io/drill-report- >/dev/null
    $kubectl patch "$node" --subresource=status --type=strategic \
      -p '{"status":{"conditions":[{"type":"npuwarden.io/NPUHealthy","$patch":"delete"}]}}' >/dev/null
  done
  if $kubectl get nodes -o jsonpath='{.items[*].spec.taints[*].key}' | grep -q npuwarden.io/fault; then
    echo "uninstall.sh: taints npuwarden.io/fault still stand; may you patch nodes, does a reconciler still run?" >&2
    exit 1
  fi
}

case ${1:-all} in
traces) traces ;;
all)
  $kubectl -n npuwarden-system delete deployment npuwarden-reconciler --ignore-not-found --wait
  $kubectl -n npuwarden-system wait --for=delete pod -l app.kubernetes.io/name=npuwarden-reconciler --timeout=60s
  traces
  $kubectl delete -k "$here" --ignore-not-found
  ;;
*)
  echo "uninstall.sh: all or traces, not '$1'" >&2
  exit 2
  ;;
esac
