/* The window machinery of rules that act for each acknowledged packet. */
#pragma once

#include "gather.h"
#include "rule.h"
#include "window.h"

/* The window or the loss counters have changed by other means than the increase. */
static inline void forget_increase(struct subflow *s)
{
	s->is_due = 1;
}

/* Nothing to note: no rule reads the RTT of a round trip. */
static inline void note_rtt(struct subflow *s, u32 rtt_us)
{
}

/* Called for each acknowledgement. */
static inline void note_round(struct subflow *s, bool ended)
{
	s->is_due |= ended;
}

/* Per acknowledged packet, in units of 2^-32 packets. No rule's increase is larger, and its product
 * with the packets of one acknowledgement, at most MAX_WINDOW, fits in 63 bits.
 */
#define LARGEST_INCREASE (100LL << 32)

/* Inlined it would take as much of the stack again as the connection. */
static __noinline soft own_increase(const struct connection *c)
{
	return increase(0, c);
}

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
	per_packet = soft_to_fixed(own_increase(&c));
	s->increase = MIN(MAX(per_packet, -LARGEST_INCREASE), LARGEST_INCREASE);
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
		end_epoch(s);
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	begin_epoch(tp, s);
	note_acknowledged(tp, s, acked);
	if (s->is_due && !compute_increase(sk))
		tcp_reno_cong_avoid(sk, ack, acked);
	else
		change_window(tp, s, s->increase * acked);
}
