#!/bin/sh
# Takes the warden out of a cluster and leaves nothing on its nodes.
#   uninstall.sh            the daemons, what they wrote on nodes, the components, then everything of deploy/ with the Recoveries
#   uninstall.sh traces     only what was written on nodes; the reconciler must not run, it would write it again
#   uninstall.sh components only what the components ranktable, drill, evidence, webhook and redis-tls-cert-manager made outside of the warden's namespaces;
#                           leave them out of your kustomization first
# Kept: the retry ledger volcano-system/vcjob-fault-npu-cm (AscendJobs that run rely on it), and on the NPU nodes the directory
# /var/lib/npu-warden.      $KUBECTL: another kubectl, with its options.
set -eu
kubectl=${KUBECTL:-kubectl}
here=$(dirname "$0")

# own NODE annotations|labels: those with the warden's prefix, each as the word that removes it.
own() {
  for key in $($kubectl get "$1" -o "go-template={{range \$key, \$value := .metadata.$2}}{{\$key}} {{end}}"); do
    case $key in npuwarden.io/*) printf '%s- ' "$key" ;; esac
  done
}

traces() {
  for node in $($kubectl get nodes -o name); do
    $kubectl taint nodes "${node#node/}" npuwarden.io/fault- >/dev/null 2>&1 || true # it has none
    removed=$(own "$node" annotations)
    # shellcheck disable=SC2086
    [ -z "$removed" ] || $kubectl annotate "$node" $removed >/dev/null
    $kubectl patch "$node" --subresource=status --type=strategic \
      -p '{"status":{"conditions":[{"type":"npuwarden.io/NPUHealthy","$patch":"delete"}]}}' >/dev/null
  done
  if $kubectl get nodes -o jsonpath='{.items[*].spec.taints[*].key}' | grep -q npuwarden.io/fault; then
    echo "uninstall.sh: taints npuwarden.io/fault still stand; may you patch nodes, does a reconciler still run?" >&2
    exit 1
  fi
}

# From Kubernetes 1.30 on. Where the kinds are not known kubectl fails on them, and there are none to remove.
policies_known() {
  kinds=$($kubectl get --raw /apis/admissionregistration.k8s.io/v1)
  case $kinds in *validatingadmissionpolicies*) ;; *) return 1 ;; esac
}

# Everything of deploy/, in one call: namespaces are waited for, and what is in them goes with them.
everything() {
  if policies_known; then
    $kubectl delete -k "$here" --ignore-not-found
    return
  fi
  echo "uninstall.sh: this Kubernetes knows no ValidatingAdmissionPolicy: admission.yaml is left out" >&2
  set --
  for file in $(sed -n 's/^  - \(.*\.yaml\)$/\1/p' "$here/Kustomization"); do
    [ "$file" = admission.yaml ] || set -- "$@" -f "$here/$file"
  done
  $kubectl delete "$@" --ignore-not-found
}

# What the components made outside of the warden's namespaces, and inside of them what would go on.
components() {
  $kubectl -n npuwarden-system delete cronjob/npuwarden-drill --cascade=foreground --ignore-not-found
  $kubectl -n npuwarden-system delete role/npuwarden-drill rolebinding/npuwarden-drill serviceaccount/npuwarden-drill \
    networkpolicy/drill-to-api-server networkpolicy/ms-controllers-to-reconciler networkpolicy/reconciler-to-webhooks \
    --ignore-not-found
  $kubectl -n mindx-dl delete role/npuwarden-ranktable rolebinding/npuwarden-ranktable --ignore-not-found
  for name in npuwarden-ranktable npuwarden-drill npuwarden-evidence; do
    $kubectl delete "clusterrolebinding/$name" "clusterrole/$name" --ignore-not-found
  done
  # Asked of the group alone: `api-resources` fails as a whole where any aggregated API is away.
  if $kubectl get --raw /apis/cert-manager.io/v1 >/dev/null 2>&1; then
    $kubectl delete clusterissuers.cert-manager.io/npuwarden-redis clusterissuers.cert-manager.io/npuwarden-self-signed --ignore-not-found
    $kubectl -n cert-manager delete certificates.cert-manager.io/npuwarden-redis-ca secret/npuwarden-redis-ca --ignore-not-found
  fi
  if policies_known; then
    for name in npuwarden-ranktable-configmaps npuwarden-drill-nodes npuwarden-evidence-configmaps; do
      $kubectl delete "validatingadmissionpolicybinding/$name" "validatingadmissionpolicy/$name" --ignore-not-found
    done
  fi
  # Of the same name ClusterD has a Service: ours has our label and no selector. The slices are ours by their names.
  is=$($kubectl -n mindx-dl get service clusterd-grpc-svc --ignore-not-found \
    -o jsonpath='{.metadata.labels.app\.kubernetes\.io/part-of}{.spec.selector}')
  if [ "$is" = npu-warden ]; then
    $kubectl -n mindx-dl delete service/clusterd-grpc-svc --ignore-not-found
  fi
  $kubectl -n mindx-dl delete endpointslice/npuwarden-ranktable endpointslice/npuwarden-ranktable-v6 --ignore-not-found
  tables=$($kubectl get configmaps -A -l jobID -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{" "}{end}')
  for table in $tables; do
    case ${table#*/} in
    npuwarden-ranktable-*) $kubectl -n "${table%/*}" delete "configmap/${table#*/}" --ignore-not-found ;;
    esac
  done
}

case ${1:-all} in
traces) traces ;;
components) components ;;
all)
  $kubectl -n npuwarden-system delete deployment npuwarden-reconciler --ignore-not-found --wait
  $kubectl -n npuwarden-system wait --for=delete pod -l app.kubernetes.io/name=npuwarden-reconciler --timeout=60s
  components
  traces
  for node in $($kubectl get nodes -o name); do
    removed=$(own "$node" labels)
    # shellcheck disable=SC2086
    [ -z "$removed" ] || $kubectl label "$node" $removed >/dev/null
  done
  everything
  ;;
*)
  echo "uninstall.sh: all, components or traces, not '$1'" >&2
  exit 2
  ;;
esac
