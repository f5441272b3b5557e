/* The window of a subflow, with its fraction. */
#pragma once

#include "path.h"
#include "subflow.h"

/* With several subflows, packets. Set by the loader. With a window of 1 the receiver delays each
 * acknowledgement, and a fragment takes up to four times as long as with 2 (docs/notebook/harm.md).
 */
const volatile u32 min_ssthresh SEC(".rodata.min_ssthresh") = SMALLEST_SSTHRESH;

static inline u32 smallest_ssthresh(const struct connection *c)
{
	return c->count > 1 ? min_ssthresh : SMALLEST_SSTHRESH_ONE_PATH;
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
 * because slow start would undo the change at once. Neither falls below the smallest threshold.
 */
static inline void change_window(struct tcp_sock *tp, struct subflow *s, s64 change)
{
	s64 window = ((s64)tp->snd_cwnd << 32 | s->fraction) + change;
	s64 least = MIN(tp->snd_cwnd, min_ssthresh), largest = MIN(tp->snd_cwnd_clamp, MAX_WINDOW);

	window = MIN(MAX(window, least << 32), largest << 32);
	tp->snd_cwnd = (u64)window >> 32;
	s->fraction = (u32)window;
	if (in_slow_start(tp))
		tp->snd_ssthresh = tp->snd_cwnd;
}
