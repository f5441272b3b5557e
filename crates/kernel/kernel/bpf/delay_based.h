/* The window machinery of rules that act once per round trip, on its mean RTT. */
#pragma once

#include "gather.h"
#include "rule.h"
#include "window.h"

/* Nothing to forget: `on_round` computes its change when it is due. */
static inline void forget_increase(struct subflow *s)
{
}

/* Called for each sample of the RTT. */
static inline void note_rtt(struct subflow *s, u32 rtt_us)
{
	s->round_sum_us += rtt_us;
}

/* Called for each acknowledgement, before the next round trip begins. */
static inline void note_round(struct subflow *s, bool ended)
{
	s->is_due = ended;
	if (!ended)
		return;
	s->round_rtt = soft_div(soft_of(s->round_sum_us), soft_of(s->round_samples));
	s->round_rtt = soft_div(s->round_rtt, SOFT(1000000));
	s->round_sum_us = 0;
}

static inline void end_slow_start_round(struct tcp_sock *tp, struct subflow *s,
					const struct connection *c)
{
	u32 floor = smallest_ssthresh(c);
	soft window;

	s->pauses ^= PAUSES_IN_SLOW_START(c);
	window = s->pauses ? 0 : leaves_slow_start(0, c);
	if (!window)
		return;
	change_window(tp, s, soft_to_fixed(soft_sub(window, c->paths[0].window)));
	tp->snd_ssthresh = MAX(tp->snd_cwnd, floor);
}

/* Below SHORTEST_RTT, 5 ms, delay is not taken for a queue: there it comes from the hosts as much
 * as from the path (busy processors, packets and acknowledgements in bursts). CoDel's target, too,
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
		s->pauses = 0;
		return;
	}
	path->base_rtt = soft_max(path->base_rtt, SHORTEST_RTT);
	path->round_rtt = soft_max(path->round_rtt, SHORTEST_RTT);
	if (!in_slow_start(tp)) {
		change = on_round(0, &c);
#if READS & MEMORY
		s->memory = c.memory;
#endif
		show_weight(s, &c);
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
	if (limited && in_slow_start(tp) && !s->pauses)
		tcp_slow_start(tp, acked);
}
