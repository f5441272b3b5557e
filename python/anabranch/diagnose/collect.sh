#!/bin/sh
# Collects what `anabranch diagnose FOLDER` reads, in 15 s, beside a transfer that is under way.
# sh collect.sh [FOLDER] at the sender, and sh collect.sh FOLDER peer- at the other end; the files
# of both belong into one folder. Needs ss and ip of iproute2; changes nothing; no root needed.
folder=${1:-diagnose-$(date +%Y%m%d-%H%M%S)}
peer=$2
mkdir -p "$folder" || exit 2
command -v ss >/dev/null || { echo "collect.sh: no ss: install iproute2 (OpenWrt: opkg install ss)" >&2; exit 2; }
options=-tinmM
ss $options >/dev/null 2>&1 || options=-tinm
ss $options >/dev/null 2>&1 || options=-tin
into() { # FILE COMMAND...
	file=$1
	shift
	"$@" >>"$folder/$peer$file" 2>/dev/null
}
began=$(date +%s)
read -r up rest </proc/uptime
stamp() { # the time with hundredths, which `date` of busybox does not have
	read -r now rest </proc/uptime
	awk "BEGIN { printf \"%.2f\\n\", $began + $now - $up }"
}
into ip-link-1.txt ip -s link
n=0
while [ $n -lt 13 ]; do
	{ stamp; ss $options; } >>"$folder/${peer}ss.txt"
	n=$((n + 1))
	sleep 1
done
into ip-link-2.txt ip -s link
into nstat.txt nstat -az
into ip-mptcp.txt ip mptcp endpoint
into ip-mptcp.txt ip mptcp limits
into ip-route.txt ip -br addr
into ip-route.txt ip rule
into ip-route.txt ip route show table all
into tc.txt tc -s qdisc
into sysctl.txt sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_congestion_control net.mptcp
into ss-listen.txt ss -ltnM
echo "anabranch diagnose $folder"
