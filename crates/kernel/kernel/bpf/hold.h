/* Holding back a path whose data would arrive too late, and the data that a path has to send.
 *
 * Linux' scheduler gives a subflow without data the next fragment of 32 kB, however small its
 * window is. What the other subflows deliver meanwhile waits at the receiver, and fills the send
 * buffer and the receive window; a request waits for its last fragment (docs/notebook/harm.md).
 *
 * The scheduler leaves out a subflow whose pacing rate is 0. So a path is held, by
 * SO_MAX_PACING_RATE, while the others would send more than the connection can spare before its
 * next fragment arrives. When a path is held, the scheduler has its earlier rate, and assigns one
 * more fragment.
 *
 * A held path gets no acknowledgements of data. TCP's keepalive probes it once per second, and the
 * program decides anew at each answer.
 */
#pragma once

#include "gather.h"
#include "window.h"

#define SOL_TCP 6
#define TCP_NOTSENT_LOWAT 25
#define LARGEST_LIMIT (1U << 30) /* bytes */

#define SK_PACING_NEEDED 1
#define SHORTEST_RTT_US 1000 /* that of a shorter path is left to Linux */
#define SOL_SOCKET 1
#define SO_KEEPALIVE 9
#define SO_MAX_PACING_RATE 47
#define TCP_KEEPIDLE 4
#define TCP_KEEPINTVL 5
#define TCP_KEEPCNT 6
#define MOST_PROBES 127 /* MAX_TCP_KEEPCNT */
#define SOCK_SNDBUF_LOCK 1

/* Bytes of write_seq in a unit of burst_start and mean_burst: 128 MB fit. */
#define BURST_UNIT 4096
#define LONGEST_BURST 0x8000

/* The most data that the scheduler assigns as a unit: 32 kB in packets of 1500 bytes. */
#define FRAGMENT_PACKETS 22

/* Size of a socket's send buffer, windows: tcp_sndbuf_expand in the kernel, and here. A buffer of 2
 * is full while a fragment is late by a round trip. A buffer grows only while the application waits
 * for it, so that of a new path has room for a request of FIRST_BUFFER.
 */
#define KERNELS_WINDOWS 2
#define BUFFER_WINDOWS 4
#define FIRST_BUFFER 128 /* packets */

/* Less than this that is not acknowledged ends a burst. */
#define LITTLE (1 << 16)

/* Set by the loader; 0 leaves all of this to the kernel. */
const volatile u32 holds_back SEC(".rodata.hold") = 1;

/* The shares of a burst, and of send buffer and receive window, that may be sent before a fragment
 * of a slower path arrives.
 */
#define BURST_SHARE 8
#define BUFFER_SHARE 2

/* A path that only the buffers hold is tried again after this many times of the lateness. */
#define RETRY_TIMES 64

/* For when a held path is released: TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT and SO_KEEPALIVE that
 * the socket had.
 */
struct hold {
	u64 since_us;
	u32 keepalive[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct hold);
} held SEC(".maps");

/* For `status`. */
u64 holds_begun SEC(".bss.holds"), holds_refused SEC(".bss.holds");

/* Limits the unsent data to a window; of a path that is later than another to what keeps it busy: a
 * part of a packet may wait for an acknowledgement. The socket's limit takes precedence over its
 * namespace's, so it must not be larger.
 */
static inline void limit_unsent_data(struct sock *sk, bool is_late)
{
	const struct net *net = sk->__sk_common.skc_net.net;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	/* In slow start the next window is twice this one. */
	u64 packets = is_late ? 2 : (u64)tp->snd_cwnd << in_slow_start(tp);
	u32 limit = MIN(packets * tp->mss_cache, LARGEST_LIMIT);

	if (net)
		limit = MIN(limit, net->ipv4.sysctl_tcp_notsent_lowat);
	if (tp->notsent_lowat != limit)
		bpf_setsockopt(sk, SOL_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit));
}

/* Length of this burst so far. */
static inline u16 burst_units(const struct subflow *s, const struct mptcp_sock *connection)
{
	return connection->write_seq / BURST_UNIT - s->burst_start;
}

/* Called once per round trip: a burst ends where the connection has little left to send. */
static inline void note_burst(struct sock *sk)
{
	const struct mptcp_sock *connection = mptcp_connection(sk);
	struct subflow *s = subflow_of(sk);
	u16 units;

	if (!connection)
		return;
	units = burst_units(s, connection);
	if (units > LONGEST_BURST)
		s->burst_start += units - LONGEST_BURST;
	if (connection->write_seq - connection->snd_una >=
		    MIN(connection->sk.icsk_inet.sk.sk_sndbuf / 4, LITTLE) ||
	    !units)
		return;
	s->mean_burst = ((u32)s->mean_burst + units) / 2;
	s->burst_start = connection->write_seq / BURST_UNIT;
}

/* Bytes of this burst so far, or of earlier ones. */
static inline u64 burst_bytes(const struct subflow *s, const struct mptcp_sock *connection)
{
	return (u64)BURST_UNIT * MAX(burst_units(s, connection), s->mean_burst);
}

/* Time until what the scheduler assigns next has arrived, us: half a round trip, and one for each
 * window. Of the own path after what is lost is sent again, and with what a loss event may leave of
 * the window, a quarter with the strongest decrease of a rule.
 */
static inline u64 arrival_us(const struct tcp_sock *tp, bool is_own)
{
	u32 window = tp->snd_cwnd, threshold = tp->snd_ssthresh, eighths = 4;
	u32 unsent = tp->write_seq - tp->snd_nxt, mss = MAX(tp->mss_cache, 1);
	u32 packets = FRAGMENT_PACKETS + (unsent < (1U << 30) ? unsent / mss : 0);
	u64 by_window, by_rate;

	if (is_own && BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) >= TCP_CA_Recovery) {
		packets += tp->packets_out;
		window = MIN(window, threshold);
	}
	if (is_own && window >= threshold)
		window /= 4;
	window = MAX(window, 1);
	by_rate = tp->rate_delivered ? (u64)packets * tp->rate_interval_us / tp->rate_delivered : 0;
	for (u32 i = 0; i < 6 && window < threshold && packets > window; i++) {
		packets -= window;
		window = MIN(2 * window, threshold);
		eighths += 8;
	}
	by_window = (u64)(tp->srtt_us >> 3) * (eighths + 8ULL * packets / window) / 8;
	/* A held path is not taken to be faster than it was. */
	return is_held(tp) ? MAX(by_rate, by_window) : by_window;
}

/* The most bytes that may be unacknowledged: by the receive window, and by the limit of the send
 * buffer, which grows up to tcp_wmem unless the application has set it.
 */
static inline u64 largest_buffer(const struct mptcp_sock *connection)
{
	const struct sock *sk = &connection->sk.icsk_inet.sk;
	const struct net *net = sk->__sk_common.skc_net.net;
	u64 window = connection->wnd_end - connection->snd_una, buffer = sk->sk_sndbuf;

	if (net && !(BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & SOCK_SNDBUF_LOCK))
		buffer = net->ipv4.sysctl_tcp_wmem[2];
	return MIN(window, buffer);
}

static inline u64 bytes_per_s(const struct tcp_sock *tp)
{
	return 8000000ULL * tp->snd_cwnd * tp->mss_cache / tp->srtt_us;
}

static inline void set(struct sock *sk, int level, int option, u32 value)
{
	bpf_setsockopt(sk, level, option, &value, sizeof(value));
}

static inline void exchange(struct sock *sk, int level, int option, u32 *value)
{
	u32 wanted = *value;

	bpf_getsockopt(sk, level, option, value, sizeof(*value));
	set(sk, level, option, wanted);
}

static inline void exchange_keepalive(struct sock *sk, struct hold *kept)
{
	exchange(sk, SOL_TCP, TCP_KEEPIDLE, &kept->keepalive[0]);
	exchange(sk, SOL_TCP, TCP_KEEPINTVL, &kept->keepalive[1]);
	exchange(sk, SOL_TCP, TCP_KEEPCNT, &kept->keepalive[2]);
	exchange(sk, SOL_SOCKET, SO_KEEPALIVE, &kept->keepalive[3]);
}

static __noinline void hold(struct sock *sk)
{
	struct hold *kept = bpf_sk_storage_get(&held, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	u32 none = 0;

	if (!kept || bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &none, sizeof(none))) {
		__sync_fetch_and_add(&holds_refused, 1);
		return;
	}
	*kept = (struct hold){((struct tcp_sock *)sk)->tcp_mstamp, {1, 1, MOST_PROBES, 1}};
	exchange_keepalive(sk, kept);
	subflow_of(sk)->is_held = 1;
	__sync_fetch_and_add(&holds_begun, 1);
}

static __noinline void release_path(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct hold *kept = bpf_sk_storage_get(&held, sk, 0, 0);
	u32 idle = 0;

	set(sk, SOL_SOCKET, SO_MAX_PACING_RATE, ~0U);
	/* The kernel sets the rate at the next acknowledgement of data. */
	if (tp->srtt_us)
		sk->sk_pacing_rate = bytes_per_s(tp);
	/* The application may have set others meanwhile. */
	bpf_getsockopt(sk, SOL_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	if (kept && idle == 1)
		exchange_keepalive(sk, kept);
	subflow_of(sk)->is_held = 0;
}

/* Slow start ends where a queue begins (RFC 9406, section 4.2), since the losses at its end would
 * leave a fragment to a window that is a small part of the one for which it was assigned.
 */
static inline void end_slow_start_at_queue(struct tcp_sock *tp, const struct subflow *s)
{
	if (in_slow_start(tp) && s->base_rtt_us != ~0U &&
	    (tp->srtt_us >> 3) > s->base_rtt_us + MAX(s->base_rtt_us / 8, 4000))
		tp->snd_ssthresh = MAX(tp->snd_cwnd, min_ssthresh);
}

/* Holds or releases a path. The reference is the fastest of the siblings that are coupled and not
 * held: what all of these send before the next fragment of this path arrives, later than it would
 * over the fastest, is compared with what the connection can spare. A pacing rate that a program or
 * the application has set is left alone.
 */
static __noinline void decide_hold(struct sock *sk)
{
	const struct mptcp_sock *connection = mptcp_connection(sk);
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct subflow *s = subflow_of(sk);
	u64 rate = 0, fastest_rate = 0, fastest_us = 0, own_us, late_us, early, spare, burst;
	const struct hold *kept;

	if (!connection || !holds_back || !tp->srtt_us)
		return;
	if (!s->is_held && (sk->sk_max_pacing_rate != ~0UL ||
			    MIN(s->base_rtt_us, tp->srtt_us >> 3) < SHORTEST_RTT_US))
		return;
	burst = burst_bytes(s, connection);
	for_each_sibling(context, sk, connection) {
		const struct tcp_sock *other = KERNEL(tcp_sock, context->tcp_sock);

		if (!is_coupled(context, other) || is_held(other))
			continue;
		u64 other_rate = bytes_per_s(other);

		rate += other_rate;
		if (other_rate <= fastest_rate)
			continue;
		fastest_rate = other_rate;
		fastest_us = arrival_us(other, false);
		const struct subflow *o = (const struct subflow *)other->inet_conn.icsk_ca_priv;

		if (o->magic == MAGIC)
			burst = burst_bytes(o, connection);
	}
	own_us = arrival_us(tp, true);
	late_us = rate && own_us > fastest_us ? own_us - fastest_us : 0;
	if (s->base_rtt_us == ~0U)
		s->began_late = late_us > 0;
	limit_unsent_data(sk, late_us > 0);
	if (late_us)
		end_slow_start_at_queue(tp, s);
	early = rate * late_us / 1000000;
	burst /= BURST_SHARE;
	spare = MIN(burst, largest_buffer(connection) / BUFFER_SHARE);
	if (!s->is_held) {
		if (early > spare)
			hold(sk);
		return;
	}
	kept = bpf_sk_storage_get(&held, sk, 0, 0);
	/* Once it has had a loss a path stays held until its window is twice what holds it. The RTT of
	 * a handshake has no packet in it, so a path is not released before it has delivered data: Linux
	 * sends some over it when another has losses.
	 */
	spare = in_slow_start(tp) ? spare * 3 / 4 : spare / 2;
	if (!late_us || (early < spare && tp->rate_delivered) ||
	    (early < burst && kept && tp->tcp_mstamp - kept->since_us > RETRY_TIMES * late_us))
		release_path(sk);
}

/* The first decision, before the scheduler uses the path. A path that was held under an earlier
 * algorithm of the socket is released, because that could not do it when it ended; its keepalive
 * stays. A path longer than a data centre's is paced: after it had to wait for another it would
 * send a window at once, which a queue shorter than that loses.
 */
static inline void begin_hold(struct sock *sk)
{
	const struct mptcp_sock *connection = mptcp_connection(sk);
	struct subflow *s = subflow_of(sk);

	if (!connection)
		return;
	s->burst_start = connection->write_seq / BURST_UNIT;
	s->mean_burst = 0;
	if (holds_back && !sk->sk_pacing_status &&
	    ((struct tcp_sock *)sk)->srtt_us >> 3 >= SHORTEST_RTT_US)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!sk->sk_max_pacing_rate)
		release_path(sk);
	decide_hold(sk);
}
