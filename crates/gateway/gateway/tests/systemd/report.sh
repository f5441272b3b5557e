# What boot.sh runs in its container, where `anabranch-gateway` and its units are installed.

# report LABEL FUNCTION: a line with what the function prints for both gateways.
report() {
	printf "%s: far %s, near %s\n" "$1" "$($2 far)" "$($2 near)"
}
property() { systemctl show --value --property="$1" "anabranch-$2"; }
state() { systemctl is-active "anabranch-$1"; }
process() { echo "/proc/$(property MainPID "$1")"; }
field() { sed -n "s/^$2:[[:space:]]*//p" "$(process "$1")/status"; }
owner() { stat --format "as %U" "$(process "$1")"; }
capabilities() { field "$1" CapEff; }
filters() { echo "$(field "$1" Seccomp) $(field "$1" NoNewPrivs)"; }
starts() { property NRestarts "$1"; }
result() { echo "$(property Result "$1") $(property ExecMainStatus "$1")"; }

# systemd takes a page of the half that is not whole.
memory() {
	total=$(($(sed -n "s/MemTotal: *\([0-9]*\) kB/\1/p" /proc/meminfo) * 1024))
	limit=$(property MemoryMax "$1")
	difference=$((total / 2 - limit))
	if [ "$difference" -ge 0 ] && [ "$difference" -lt 8192 ]; then echo half; else echo "$limit"; fi
}

# Waits up to 60 s until a command succeeds.
wait_until() {
	tries=0
	until "$@" || [ "$tries" = 600 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
}

# The status page of far, which answers over TCP, through near's SOCKS proxy.
through_the_tunnel() {
	bash -c '
		exec 3<>/dev/tcp/127.0.0.1/1080
		printf "\5\1\0" >&3
		head -c 2 <&3 >/dev/null
		printf "\5\1\0\1\177\0\0\1\45\11" >&3
		head -c 10 <&3 >/dev/null
		printf "GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" >&3
		head -n 1 <&3 | tr -d "\r"
	' 2>/dev/null
}
carries() { through_the_tunnel | grep -q 200; }
carried() {
	wait_until carries
	echo "through the tunnel: $(through_the_tunnel)"
}

kill_and_wait() {
	systemctl kill --signal=KILL "anabranch-$1"
	wait_until is_started_again "$1" "$2"
}
is_started_again() { [ "$(starts "$1") $(state "$1")" = "$2 active" ]; }

systemd-sysusers anabranch-gateway.conf
systemctl daemon-reload
systemctl start anabranch-far anabranch-near
report "without a configuration" state

ip link set lo up
mkdir -p /etc/anabranch
chown anabranch-gateway /etc/anabranch
cd /etc/anabranch
for end in far near; do
	setpriv --reuid=anabranch-gateway --clear-groups anabranch-gateway keygen $end.key >$end.pub
done
cat >far.toml <<TOML
listen = "127.0.0.1:7440"
allow = ["127.0.0.0/8"]
tunnel = { carrier = "quic", algorithm = "olia", key = "far.key", peers = ["$(cat near.pub)"] }
operation = { status = "127.0.0.1:9481" }
TOML
cat >near.toml <<TOML
far = "127.0.0.1:7440"
tunnel = { carrier = "quic", algorithm = "olia", key = "near.key", peers = ["$(cat far.pub)"] }
socks = { listen = "127.0.0.1:1080" }
paths = [{ name = "a", interface = "lo" }]
TOML
systemctl start anabranch-far anabranch-near
report started state
report running owner
carried
report capabilities capabilities
report "filters of system calls, new privileges refused" filters
report memory memory
systemctl reload anabranch-far anabranch-near
report SIGHUP state

# With systemd's own limit, 5 starts in 10 s, a start would be refused where the machine is fast.
for time in 1 2 3 4 5 6 7; do
	for end in far near; do kill_and_wait $end $time; done
done
report "SIGKILL, 7 times" state
report "starts by systemd" starts
carried

systemctl stop anabranch-near anabranch-far
report SIGTERM state
report results result

systemctl reset-failed anabranch-far 2>/dev/null
echo "listen = 3" >far.toml
systemctl start anabranch-far 2>/dev/null
sleep 3
report "a faulty configuration" state
report "starts by systemd" starts
systemctl list-units --failed --no-legend --plain | grep -v anabranch-far
echo end
