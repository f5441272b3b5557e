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
 * - With `coupling=shared` a subflow is coupled with the siblings of its group (groups.h).
 * - A backup is coupled while it has packets in flight, and when its own growth is computed.
 * - A sibling with another algorithm is coupled with its window and RTT, and no losses.
 * - The window keeps its fraction, and grows by the rule's increase for each acknowledged packet.
 *   The increase is computed once per round trip of the subflow, and anew after its losses and when
 *   congestion avoidance begins (docs/reference/kernel.md). The window
 *   does not grow while the application, not the window, limits the sender.
 */
#include "rule.h"
#include "gather.h"
#include "hold.h"
#include "epoch.h"
#ifdef DELAY_BASED
#include "delay_based.h"
#else
#include "loss_based.h"
#endif

char _license[] SEC("license") = "Dual MIT/GPL";

/* The version that loaded this and the algorithm with its parameters, for `status`. */
const volatile char about[MAX_ABOUT] SEC(".rodata.about") = {};

/* Controller::count_loss in crates/model/control/src/controller.rs. */
static inline void count_loss(struct subflow *s)
{
	struct losses *losses = &s->losses;
	soft packets, change;

	s->prior = *losses;
	losses->between = MAX(losses->since, 1);
	losses->since = 0;
	packets = soft_of(losses->between);
	change = soft_mul(LOSS_INTERVAL_GAIN, soft_sub(packets, losses->interval));
	losses->interval = losses->interval ? soft_add(losses->interval, change) : packets;
	on_loss(&s->memory);
}

static inline void init_subflow(struct tcp_sock *tp, struct subflow *s)
{
	s->base_rtt_us = ~0U;
	s->round_end = tp->snd_nxt;
	s->pauses = s->is_held = 0;
	s->keeps_memory = !!(READS & MEMORY);
	s->keeps_epoch = !!(READS & EPOCH);
	forget_increase(s);
	s->magic = MAGIC;
}

SEC("struct_ops")
void BPF_PROG(init, struct sock *sk)
{
	init_subflow((struct tcp_sock *)sk, subflow_of(sk));
	remove_group(sk);
	begin_hold(sk);
}

SEC("struct_ops")
u32 BPF_PROG(sndbuf_expand, struct sock *sk)
{
	u32 window = MAX(((struct tcp_sock *)sk)->snd_cwnd, 10);

	if (!holds_back || !mptcp_connection(sk) || subflow_of(sk)->began_late)
		return KERNELS_WINDOWS;
	return MAX(BUFFER_WINDOWS, FIRST_BUFFER / window);
}

SEC("struct_ops")
void BPF_PROG(release, struct sock *sk)
{
	subflow_of(sk)->magic = 0;
	remove_weight(sk);
	remove_group(sk);
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
	note_peak((struct tcp_sock *)sk, s);
	return reduced_window(sk);
}

/* A loss event. The epoch after a timeout has no earlier peak (RFC 9438, section 4.8). */
SEC("struct_ops")
void BPF_PROG(set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		forget_peaks(subflow_of(sk));
	if (new_state >= TCP_CA_Recovery)
		decide_hold(sk);
}

/* Some kernels skip a program, and use uninitialised stack memory as its result, if the processor
 * was interrupted in a process that no program may observe. A threshold above the window before the
 * loss, or a window above MAX_WINDOW, cannot come from these programs and is replaced.
 */
static inline void replace_invalid_window(struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 window = tp->snd_cwnd, before = MAX(tp->prior_cwnd, 2);
	bool reducing = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) >= TCP_CA_CWR;

	if (reducing && tp->snd_ssthresh > before) {
		tp->snd_cwnd = before;
		tp->snd_ssthresh = reduced_window(sk);
		tp->snd_cwnd = MIN(window, before);
	} else if (window > MAX_WINDOW) {
		tp->snd_cwnd = before;
	}
}

SEC("struct_ops")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	struct subflow *s = subflow_of(sk);

	s->prior.since += s->losses.since;
	s->losses = s->prior;
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
	note_time(tp, s);
	s->losses.since += sample->pkts_acked;
	if (sample->rtt_us > 0) {
		if ((u32)sample->rtt_us < s->base_rtt_us)
			s->base_rtt_us = sample->rtt_us;
		if (s->round_samples != (u16)~0) {
			note_rtt(s, sample->rtt_us);
			s->round_samples++;
		}
		note_delay(sk, sample->rtt_us);
	}
	round_ended = (s32)(tp->snd_una - s->round_end) > 0 && s->round_samples;
	note_round(s, round_ended);
	if (!round_ended)
		return;
	s->round_end = tp->snd_nxt;
	s->round_samples = 0;
	note_burst(sk);
	decide_hold(sk);
}

/* A held path has nothing in flight, so only the answers to its probes call a program. */
SEC("struct_ops")
void BPF_PROG(in_ack_event, struct sock *sk, u32 flags)
{
	struct subflow *s = subflow_of(sk);

	if (s->magic == MAGIC && s->is_held)
		decide_hold(sk);
}

#define NAME_OF(rule) QUOTED(rule)

SEC(".struct_ops.link")
struct tcp_congestion_ops RULE = {
	.init = (void *)init,
	.release = (void *)release,
	.ssthresh = (void *)ssthresh,
	.set_state = (void *)set_state,
	.undo_cwnd = (void *)undo_cwnd,
	.pkts_acked = (void *)pkts_acked,
	.in_ack_event = (void *)in_ack_event,
	.cong_avoid = (void *)cong_avoid,
	.sndbuf_expand = (void *)sndbuf_expand,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = NAME_OF(RULE),
};
