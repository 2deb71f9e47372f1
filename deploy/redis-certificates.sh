#!/bin/sh
# Certificates for the small Redis with TLS (components/redis-tls), where no cert-manager makes them: prints three Secrets.
#   deploy/redis-certificates.sh | kubectl apply -f -      again before they end, and for a new authority
# One authority for this Redis alone. Its key is thrown away when this ends, so nobody can sign for it again: to renew is to make
# all of it anew. The daemons read their files at each new connection, Redis its own when it starts:
#   kubectl -n npuwarden-system rollout restart statefulset npuwarden-redis
# $DAYS: how long they hold, 365 if not set. Needs openssl (1.1.1 or newer).
set -eu
days=${DAYS:-365}
service=npuwarden-redis
case $days in
'' | *[!0-9]* | 0*)
  echo "redis-certificates.sh: DAYS is a number of days from 1 on, not '$days'" >&2
  exit 2
  ;;
esac
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Strict checks (Python 3.13) want them.
identifiers='subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid:always
'

quietly() {
  "$@" 2>"$work/said" || {
    cat "$work/said" >&2
    exit 1
  }
}

# sign NAME USAGE [SUBJECT-ALT-NAME...]
sign() {
  name=$1
  printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n%s' "$2" \
    "$identifiers" >"$work/$name.ext"
  [ -z "${3:-}" ] || printf 'subjectAltName=%s\n' "$3" >>"$work/$name.ext"
  quietly openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$work/$name.key" \
    -out "$work/$name.csr"
  quietly openssl x509 -req -in "$work/$name.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial -days "$days" \
    -extfile "$work/$name.ext" -out "$work/$name.crt"
}

# secret NAME NAMESPACE CERTIFICATE
secret() {
  cat <<S
---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: $1
  namespace: $2
  labels: {app.kubernetes.io/part-of: npu-warden}
data:
  ca.crt: $(base64 <"$work/ca.crt" | tr -d '\n')
  tls.crt: $(base64 <"$work/$3.crt" | tr -d '\n')
  tls.key: $(base64 <"$work/$3.key" | tr -d '\n')
S
}

printf '[req]\ndistinguished_name=dn\nx509_extensions=ca\n[dn]\n[ca]\nbasicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign\n%s' \
  "$identifiers" >"$work/ca.cnf"
quietly openssl req -x509 -config "$work/ca.cnf" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$service-ca" \
  -days "$days" -keyout "$work/ca.key" -out "$work/ca.crt"
sign server serverAuth "DNS:$service,DNS:$service.npuwarden-system,DNS:$service.npuwarden-system.svc,DNS:localhost,IP:127.0.0.1"
sign reconciler clientAuth
sign agent clientAuth
secret npuwarden-redis-server-tls npuwarden-system server
secret npuwarden-redis-client-tls npuwarden-system reconciler
secret npuwarden-redis-client-tls npuwarden-agent agent
echo "these certificates end in $days days; a Redis that runs takes new ones when it is restarted: \
kubectl -n npuwarden-system rollout restart statefulset $service" >&2
