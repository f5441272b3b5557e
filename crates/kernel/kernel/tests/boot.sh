#!/bin/sh
# Boots systemd in a container from this machine's files, with the units of ../systemd enabled and a
# second network namespace, and checks the default congestion control after boot, reload and stop.
# Takes 7 s; needs root, systemd, systemd-container, iproute2 and overlayfs. Leaves nothing.
#
#   cargo build -p anabranch-kernel && sudo crates/kernel/kernel/tests/boot.sh
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
binary=${1:-${CARGO_TARGET_DIR:-$here/../../../target}/debug/anabranch-kernel}

# The tests of this crate take the same lock: names are global to the kernel.
if [ -z "${BOOT_TEST:-}" ]; then
	exec flock "${TMPDIR:-/tmp}/anabranch-kernel-$(id -u).lock" env BOOT_TEST=1 sh "$0" "$binary"
fi

tree=$(mktemp -d)
trap 'rm -r "$tree"' EXIT
upper=$tree/upper
units=$upper/etc/systemd/system
mkdir -p "$upper/etc/sysctl.d" "$upper/usr/local/sbin" "$units/anabranch-default@lia.service.d"
cp "$binary" "$upper/usr/local/sbin/anabranch-kernel"
cp "$here"/systemd/*.service "$units"

# Too early: systemd-sysctl runs before the unit that registers lia.
echo net.ipv4.tcp_congestion_control=lia >"$upper/etc/sysctl.d/99-lia.conf"

cat >"$units/netns-blue.service" <<'UNIT'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/ip netns add blue
UNIT

# The drop-in of docs/how-to/kernel.md.
cat >"$units/anabranch-default@lia.service.d/blue.conf" <<'UNIT'
[Unit]
Requires=netns-blue.service
After=netns-blue.service

[Service]
ExecStart=/usr/local/sbin/anabranch-kernel default %i --namespace blue
ExecStop=/usr/local/sbin/anabranch-kernel default --namespace blue
UNIT

# systemd mounts this itself, but not in a container.
cat >"$units/bpf.service" <<'UNIT'
[Unit]
Before=anabranch-kernel.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mkdir -p /sys/fs/bpf && mount -t bpf -o mode=0700 bpf /sys/fs/bpf'
UNIT

cat >"$upper/report.sh" <<'SCRIPT'
defaults() {
	for run in "" "ip netns exec blue"; do
		printf "%s: %s %s\n" "$1" "${run:-first}" \
			"$($run cat /proc/sys/net/ipv4/tcp_congestion_control)"
	done
}
journalctl --sync
journalctl --boot --identifier systemd-sysctl | grep -o "Couldn't write 'lia' .*" | sed "s/^/sysctl.d: /"
for unit in anabranch-kernel anabranch-default@lia; do
	echo "$unit $(systemctl is-active $unit)"
done
defaults boot
systemctl reload anabranch-kernel
defaults reload
anabranch-kernel status | grep -c "an earlier program" | sed "s/^/earlier programs: /"
systemctl stop anabranch-kernel
defaults stop
anabranch-kernel status
systemctl --failed --no-legend --plain
echo end
SCRIPT

# In place of the units that this machine has enabled.
mkdir "$tree/wants"
for unit in bpf.service anabranch-kernel.service report.service; do
	ln -s "/etc/systemd/system/$unit" "$tree/wants/$unit"
done
ln -s /etc/systemd/system/anabranch-default@.service "$tree/wants/anabranch-default@lia.service"
SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes BOOT_TARGET=multi-user.target "$here/../../../.ci/boot" "$upper" \
	--capability=CAP_BPF,CAP_PERFMON,CAP_NET_ADMIN --system-call-filter=bpf \
	--bind-ro="$tree/wants:/etc/systemd/system/multi-user.target.wants" >"$tree/report"

# The kernel's own default, which a new network namespace has, too.
own=$(unshare --net cat /proc/sys/net/ipv4/tcp_congestion_control)
cat >"$tree/expected" <<EXPECTED
sysctl.d: Couldn't write 'lia' to 'net/ipv4/tcp_congestion_control', ignoring: No such file or directory
anabranch-kernel active
anabranch-default@lia active
boot: first lia
boot: ip netns exec blue lia
reload: first lia
reload: ip netns exec blue lia
earlier programs: 0
stop: first $own
stop: ip netns exec blue $own
registered: none
end
EXPECTED
diff "$tree/expected" "$tree/report"
cat "$tree/report"
