/* The epoch of a subflow, its present stage of congestion avoidance, for rules with EPOCH: what
 * the Controller in crates/model/control/src keeps in Path::epoch_window, age, rounds, peak and
 * prior_peak.
 *
 * As with the kernel's CUBIC, an epoch that a spurious loss has ended stays ended after the undo:
 * another begins at the restored window.
 */
#pragma once

#include "window.h"

#if READS & EPOCH

/* Another begins when congestion avoidance does. */
static inline void end_epoch(struct subflow *s)
{
	s->epoch.window = 0;
}

static inline soft present_window(const struct tcp_sock *tp, const struct subflow *s)
{
	return soft_scaled((u64)tp->snd_cwnd << 32 | s->fraction, -32);
}

/* Called where the rule determines the growth. */
static inline void begin_epoch(const struct tcp_sock *tp, struct subflow *s)
{
	if (s->epoch.window)
		return;
	s->epoch.window = present_window(tp, s);
	s->age_us = s->rounds = 0;
}

/* Called in an epoch, for packets that are acknowledged while the window limits the sender. */
static inline void note_acknowledged(const struct tcp_sock *tp, struct subflow *s, u32 acked)
{
	s->rounds += ((u64)acked << 32) / (tp->snd_cwnd ? tp->snd_cwnd : 1);
}

/* Called at a loss event, before the window falls. */
static inline void note_peak(const struct tcp_sock *tp, struct subflow *s)
{
	s->epoch.prior_peak = s->epoch.peak;
	s->epoch.peak = present_window(tp, s);
	end_epoch(s);
}

static inline void forget_peaks(struct subflow *s)
{
	s->epoch.peak = s->epoch.prior_peak = 0;
}

/* Called for each acknowledgement. The age grows up to 71 minutes, and not while the application
 * limits the sender.
 */
static inline void note_time(struct tcp_sock *tp, struct subflow *s)
{
	u32 now_us = tp->tcp_mstamp, elapsed_us = now_us - s->last_us;

	s->last_us = now_us;
	if (s->epoch.window && window_limited(tp))
		s->age_us = elapsed_us < ~s->age_us ? s->age_us + elapsed_us : ~0U;
}

#else

static inline void end_epoch(struct subflow *s)
{
}

static inline void begin_epoch(const struct tcp_sock *tp, struct subflow *s)
{
}

static inline void note_acknowledged(const struct tcp_sock *tp, struct subflow *s, u32 acked)
{
}

static inline void note_peak(const struct tcp_sock *tp, struct subflow *s)
{
}

static inline void forget_peaks(struct subflow *s)
{
}

static inline void note_time(struct tcp_sock *tp, struct subflow *s)
{
}

#endif
