/* The congestion control of the rule named by RULE: the window machinery that all rules share, as
 * the kernel's Reno has it.
 *
 * Recovery, timeouts, SACK reneging and window reduction are the kernel's. It calls these programs
 * for a slow start threshold, for growth, and for the window after a spurious loss.
 *
 * - Plain TCP falls back to the kernel's Reno; with a delay-based rule it runs the rule over one
 *   path. The same holds for a connection that falls back to plain TCP when it is opened. One that
 *   falls back later has a single subflow left, and runs the rule over one path. A socket without
 *   an RTT sample falls back to the kernel's Reno.
 * - A subflow is coupled with the siblings that its connection lists at that moment: those
 *   established, not closing, with an RTT; at most MAX_PATHS.
 * - A backup is coupled while it has packets in flight, and when its own growth is computed.
 * - A sibling with another algorithm is coupled with its window and RTT, and no losses.
 * - The window keeps its fraction, and grows by the rule's increase for each acknowledged packet.
 *   The increase is computed once per round trip of the subflow, and anew after its losses and when
 *   congestion avoidance begins (docs/kernel.md, "What it costs"). The window does not grow while
 *   the application, not the window, limits the sender.
 */
#include "evaluation.h"
#include "buffers.h"
#include "rule.h"
#include "gather.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* The rule's parameters. */
const volatile soft parameters[MAX_PARAMETERS] SEC(".rodata.parameters") = {};

/* The version that loaded this and the algorithm with its parameters, for `status`. */
const volatile char about[MAX_ABOUT] SEC(".rodata.about") = {};

/* Whether no subflow is coupled: each is a connection of its own to the rule. */
const volatile u32 is_uncoupled SEC(".rodata.coupling") = 0;

#ifdef WEIGHT
/* The parameter WEIGHT of single sockets, by cookie; for Multipath TCP the connection's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, soft);
} weights SEC(".maps");

static inline u64 cookie_of(const struct sock *sk, const struct mptcp_sock *connection)
{
	if (connection)
		return connection->sk.icsk_inet.sk.__sk_common.skc_cookie.counter;
	return sk->__sk_common.skc_cookie.counter;
}

static inline void own_weight(struct connection *c, const struct sock *sk,
			      const struct mptcp_sock *connection)
{
	u64 cookie = cookie_of(sk, connection);
	soft *weight = bpf_map_lookup_elem(&weights, &cookie);

	if (weight)
		c->parameters[WEIGHT] = *weight;
}

/* The last socket of a connection that stops running the rule takes its weight with it. */
static inline void remove_weight(struct sock *sk)
{
	const struct mptcp_sock *connection = mptcp_connection(sk);
	u64 cookie = cookie_of(sk, connection);

	if (!connection || !has_sibling_of_ours(sk, connection))
		bpf_map_delete_elem(&weights, &cookie);
}
#endif

/* Gathers the input of the rule, the socket's own path first. False to fall back to the kernel's
 * Reno. Without siblings where the rule reads none and nothing depends on their number.
 */
static inline bool gather(struct connection *c, struct sock *sk, bool with_siblings)
{
	const struct mptcp_sock *connection = mptcp_connection(sk);
	struct tcp_sock *tp = (struct tcp_sock *)sk;

#ifndef DELAY_BASED
	if (!connection)
		return false;
#endif
	if (!tp->srtt_us)
		return false;
	for (u32 i = 0; i < MAX_PARAMETERS; i++)
		c->parameters[i] = parameters[i];
#ifdef WEIGHT
	own_weight(c, sk, connection);
#endif
	read_path(c, 0, OWN, tp, subflow_of(sk));
	c->count = 1;
	if (connection && with_siblings && !is_uncoupled)
		read_siblings(c, sk, connection);
	return true;
}

static inline u32 smallest_ssthresh(const struct connection *c)
{
	return c->count > 1 ? SMALLEST_SSTHRESH : SMALLEST_SSTHRESH_ONE_PATH;
}

static inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* The kernel's tcp_is_cwnd_limited. */
static inline bool window_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Used in congestion avoidance. A window that falls below the slow start threshold lowers it,
 * because slow start would undo the change at once.
 */
static inline void change_window(struct tcp_sock *tp, struct subflow *s, s64 change)
{
	s64 window = ((s64)tp->snd_cwnd << 32 | s->fraction) + change;
	s64 largest = tp->snd_cwnd_clamp < MAX_WINDOW ? tp->snd_cwnd_clamp : MAX_WINDOW;

	if (window < 1LL << 32)
		window = 1LL << 32;
	if (window > largest << 32)
		window = largest << 32;
	tp->snd_cwnd = (u64)window >> 32;
	s->fraction = (u32)window;
	if (in_slow_start(tp))
		tp->snd_ssthresh = tp->snd_cwnd;
}

/* Controller::count_loss in crates/control/src/controller.rs. */
static inline void count_loss(struct subflow *s)
{
	soft packets = soft_of(s->since_loss ? s->since_loss : 1), change;

	s->prior_since_loss = s->since_loss;
	s->prior_between_losses = s->between_losses;
	s->prior_loss_interval = s->loss_interval;

	change = soft_mul(LOSS_INTERVAL_GAIN, soft_sub(packets, s->loss_interval));
	s->loss_interval = s->loss_interval ? soft_add(s->loss_interval, change) : packets;
	s->between_losses = s->since_loss ? s->since_loss : 1;
	s->since_loss = 0;
	on_loss(&s->memory);
}

/* The window or the loss counters have changed by other means than the increase. */
static inline void forget_increase(struct subflow *s)
{
#ifndef DELAY_BASED
	s->is_due = 1;
#endif
}

static inline void init_subflow(struct tcp_sock *tp, struct subflow *s)
{
	s->base_rtt_us = ~0U;
	s->round_end = tp->snd_nxt;
	s->holds = 0;
	forget_increase(s);
	s->magic = MAGIC;
}

SEC("struct_ops")
void BPF_PROG(init, struct sock *sk)
{
	init_subflow((struct tcp_sock *)sk, subflow_of(sk));
	limit_unsent_data(sk);
}

SEC("struct_ops")
u32 BPF_PROG(sndbuf_expand, struct sock *sk)
{
	return send_buffer_windows(sk);
}

SEC("struct_ops")
void BPF_PROG(release, struct sock *sk)
{
	subflow_of(sk)->magic = 0;
#ifdef WEIGHT
	remove_weight(sk);
#endif
}

/* The window after a loss. Its fraction is kept for when the window is at the threshold again. */
static inline u32 reduced_window(struct sock *sk)
{
	struct connection c = {};
	u64 least, left;

	if (!gather(&c, sk, true))
		return tcp_reno_ssthresh(sk);
	least = (u64)smallest_ssthresh(&c) << 32;
	left = soft_to_fixed(soft_sub(c.paths[0].window, decrease(0, &c)));
	if ((s64)left < (s64)least)
		left = least;
	subflow_of(sk)->fraction = (u32)left;
	return left >> 32;
}

/* Called once per loss event: at the start of recovery, at a timeout, at congestion signalled by
 * ECN or the local queue.
 */
SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct subflow *s = subflow_of(sk);

	count_loss(s);
	forget_increase(s);
	return reduced_window(sk);
}

/* Some kernels skip a program, and use uninitialised stack memory as its result, if the processor
 * was interrupted in a process that no program may observe. A threshold above the window before the
 * loss, or a window above MAX_WINDOW, cannot come from these programs and is replaced.
 */
static inline void replace_invalid_window(struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 window = tp->snd_cwnd, before = tp->prior_cwnd > 2 ? tp->prior_cwnd : 2;
	bool reducing = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) >= TCP_CA_CWR;

	if (reducing && tp->snd_ssthresh > before) {
		tp->snd_cwnd = before;
		tp->snd_ssthresh = reduced_window(sk);
		tp->snd_cwnd = window < before ? window : before;
	} else if (window > MAX_WINDOW) {
		tp->snd_cwnd = before;
	}
}

SEC("struct_ops")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	struct subflow *s = subflow_of(sk);

	s->since_loss += s->prior_since_loss;
	s->between_losses = s->prior_between_losses;
	s->loss_interval = s->prior_loss_interval;
	forget_increase(s);
	return tcp_reno_undo_cwnd(sk);
}

/* RTT samples, and the end of a round trip: a packet sent since its start is acknowledged. */
SEC("struct_ops")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct subflow *s = subflow_of(sk);
	bool round_ended;

	if (s->magic != MAGIC)
		init_subflow(tp, s);
	replace_invalid_window(sk);
	s->since_loss += sample->pkts_acked;
	if (sample->rtt_us > 0) {
		if ((u32)sample->rtt_us < s->base_rtt_us)
			s->base_rtt_us = sample->rtt_us;
		s->round_sum_us += sample->rtt_us;
		s->round_samples++;
	}
	round_ended = (s32)(tp->snd_una - s->round_end) > 0 && s->round_samples;
#ifdef DELAY_BASED
	s->is_due = round_ended;
#else
	s->is_due |= round_ended;
#endif
	if (!round_ended)
		return;
#ifdef DELAY_BASED
	s->round_rtt = soft_div(soft_of(s->round_sum_us), soft_of(s->round_samples));
	s->round_rtt = soft_div(s->round_rtt, SOFT(1000000));
#endif
	s->round_end = tp->snd_nxt;
	s->round_sum_us = s->round_samples = 0;
}

#ifdef DELAY_BASED
static inline void end_slow_start_round(struct tcp_sock *tp, struct subflow *s,
					const struct connection *c)
{
	u32 floor = smallest_ssthresh(c);
	soft window;

	s->holds ^= ALTERNATE_SLOW_START;
	window = s->holds ? 0 : leaves_slow_start(&c->paths[0]);
	if (!window)
		return;
	change_window(tp, s, soft_to_fixed(soft_sub(window, c->paths[0].window)));
	tp->snd_ssthresh = tp->snd_cwnd > floor ? tp->snd_cwnd : floor;
}

/* Below SHORTEST_RTT, 5 ms, delay is not taken for a queue: there it comes from the hosts as much as
 * from the path (busy processors, packets and acknowledgements in bursts). CoDel's target, too,
 * allows such a queue (RFC 8289). A path with a longer base RTT follows the rule unchanged.
 */
static __noinline void end_round(struct sock *sk, bool limited)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct subflow *s = subflow_of(sk);
	struct connection c = {};
	struct path *path = c.paths;
	soft change;

	if (!gather(&c, sk, SIBLINGS || in_slow_start(tp))) {
		s->holds = 0;
		return;
	}
	path->base_rtt = soft_max(path->base_rtt, SHORTEST_RTT);
	path->round_rtt = soft_max(path->round_rtt, SHORTEST_RTT);
	if (!in_slow_start(tp)) {
		change = on_round(0, &c);
#if READS & MEMORY
		s->memory = c.memory[0];
#endif
#ifdef WEIGHT
		s->memory.alpha = c.parameters[WEIGHT]; /* for `status` */
#endif
		if (limited || soft_less(change, 0))
			change_window(tp, s, soft_to_fixed(change));
	} else {
		end_slow_start_round(tp, s, &c);
	}
}

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct subflow *s = subflow_of(sk);
	bool limited = window_limited(tp);

	if (s->is_due) {
		s->is_due = 0;
		end_round(sk, limited);
	}
	if (limited && in_slow_start(tp) && !s->holds)
		tcp_slow_start(tp, acked);
}
#else
/* Per acknowledged packet, in units of 2^-32 packets. No rule's increase is larger, and its product
 * with the packets of one acknowledgement, at most MAX_WINDOW, fits in 63 bits.
 */
#define LARGEST_INCREASE (100LL << 32)

/* Computes the increase per acknowledged packet; false to fall back to the kernel's Reno. A
 * function of its own, because it takes space on the stack that acknowledgements do not need.
 */
static __noinline bool compute_increase(struct sock *sk)
{
	struct subflow *s = subflow_of(sk);
	struct connection c = {};
	s64 per_packet;

	if (!gather(&c, sk, SIBLINGS))
		return false;
	per_packet = soft_to_fixed(increase(0, &c));
	if (per_packet > LARGEST_INCREASE)
		per_packet = LARGEST_INCREASE;
	if (per_packet < -LARGEST_INCREASE)
		per_packet = -LARGEST_INCREASE;
	s->increase = per_packet;
	s->is_due = 0;
	return true;
}

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct subflow *s = subflow_of(sk);

	if (!window_limited(tp))
		return;
	if (in_slow_start(tp)) {
		forget_increase(s);
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	if (s->is_due && !compute_increase(sk))
		tcp_reno_cong_avoid(sk, ack, acked);
	else
		change_window(tp, s, s->increase * acked);
}
#endif

#define NAME_OF(rule) QUOTED(rule)

SEC(".struct_ops.link")
struct tcp_congestion_ops RULE = {
	.init = (void *)init,
	.release = (void *)release,
	.ssthresh = (void *)ssthresh,
	.undo_cwnd = (void *)undo_cwnd,
	.pkts_acked = (void *)pkts_acked,
	.cong_avoid = (void *)cong_avoid,
	.sndbuf_expand = (void *)sndbuf_expand,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = NAME_OF(RULE),
};

/* For the test that the loaded program is bit-equal to the Rust rule. In a map, because the context
 * can only be read at constant offsets.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct evaluation);
} evaluated SEC(".maps");

SEC("syscall")
int evaluate(struct evaluation *evaluation)
{
	u32 zero = 0;
	struct evaluation *copy = bpf_map_lookup_elem(&evaluated, &zero);
	struct connection c = {};

	if (!copy)
		return 1;
	*copy = *evaluation;
	evaluate_rule(copy, &c);
	*evaluation = *copy;
	return 0;
}
