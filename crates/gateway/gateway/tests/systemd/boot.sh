#!/bin/sh
# Boots systemd in a container with the units of ../../systemd, and checks that both gateways become
# ready, carry a connection, start again after SIGKILL, also often, end by SIGTERM, and do not start
# again where the configuration is faulty; with which privileges they run. Needs what .ci/boot does.
#
#   cargo build -p anabranch-gateway && sudo crates/gateway/gateway/tests/systemd/boot.sh
#
# $BOOT_ROOT may be another system, with the bash that near's client is written in.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
binary=${1:-${CARGO_TARGET_DIR:-$here/../../../target}/debug/anabranch-gateway}

tree=$(mktemp -d)
trap 'rm -r "$tree"' EXIT
upper=$tree/upper
mkdir -p "$upper/etc/systemd/system" "$upper/usr/lib/sysusers.d" "$upper/usr/local/bin"
cp "$binary" "$upper/usr/local/bin/anabranch-gateway"
cp "$here"/systemd/*.service "$upper/etc/systemd/system"
cp "$here/systemd/anabranch-gateway.sysusers" "$upper/usr/lib/sysusers.d/anabranch-gateway.conf"
cp "$here/tests/systemd/report.sh" "$upper/report.sh"
"$here/../../../.ci/boot" "$upper" >"$tree/report"

cat >"$tree/expected" <<'EXPECTED'
without a configuration: far inactive, near inactive
started: far active, near active
running: far as anabranch-gateway, near as anabranch-gateway
through the tunnel: HTTP/1.1 200 OK
capabilities: far 0000000000000000, near 0000000000000000
filters of system calls, new privileges refused: far 2 1, near 2 1
memory: far half, near half
SIGHUP: far active, near active
SIGKILL, 7 times: far active, near active
starts by systemd: far 7, near 7
through the tunnel: HTTP/1.1 200 OK
SIGTERM: far inactive, near inactive
results: far success 0, near success 0
a faulty configuration: far failed, near inactive
starts by systemd: far 0, near 0
end
EXPECTED
diff "$tree/expected" "$tree/report"
cat "$tree/report"
