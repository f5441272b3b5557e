/* Input of a subflow's rule: its own state, and its siblings'. */
#pragma once

#include "groups.h"
#include "path.h"
#include "subflow.h"
#include "weight.h"

/* The rule's parameters. */
const volatile soft parameters[MAX_PARAMETERS] SEC(".rodata.parameters") = {};

/* A path that loses everything stays established. After this many timeouts in a row without an
 * acknowledgement it is not counted.
 */
#define DEAD_TIMEOUTS 2

static inline bool is_held(const struct tcp_sock *tp)
{
	const struct subflow *s = (const struct subflow *)tp->inet_conn.icsk_ca_priv;

	return s->magic == MAGIC && s->is_held;
}

/* Whether a sibling is coupled. A backup is while it has packets in flight: an idle one would only
 * reduce the others' increase.
 */
static inline bool is_coupled(const struct mptcp_subflow_context *context,
			      const struct tcp_sock *tp)
{
	u8 state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;

	if (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
		return false;
	if (!tp->srtt_us || tp->inet_conn.icsk_backoff >= DEAD_TIMEOUTS)
		return false;
	/* Without the field (before Linux 6.19 and its backports) a subflow that closes leaves the
	 * list or changes its state.
	 */
	if (bpf_core_field_exists(context->closing) && BPF_CORE_READ_BITFIELD(context, closing))
		return false;
	if (is_held(tp) || BPF_CORE_READ_BITFIELD(context, backup) ||
	    BPF_CORE_READ_BITFIELD(context, request_bkup))
		return tp->packets_out > 0;
	return true;
}

static inline soft smoothed_rtt(const struct tcp_sock *tp)
{
	return soft_div(soft_of(tp->srtt_us), SOFT(8000000));
}

static inline soft base_rtt(const struct subflow *s)
{
	return soft_div(soft_of(s->base_rtt_us), SOFT(1000000));
}

/* Fills in these fields of path k. Of a sibling with another algorithm only the window and the RTT
 * are known.
 */
static inline void read_path(struct connection *c, u32 k, u32 fields, const struct tcp_sock *tp,
			     const struct subflow *s)
{
	struct path *path = &c->paths[k & (MAX_PATHS - 1)];
	bool is_ours = s->magic == MAGIC;

	if (fields & WINDOW)
		path->window = soft_scaled((u64)tp->snd_cwnd << 32 | (is_ours ? s->fraction : 0), -32);
#if READS & RTT
	if (fields & RTT)
		path->rtt = smoothed_rtt(tp);
#endif
#if READS & ROUND
	if (fields & ROUND) {
		path->base_rtt = is_ours ? base_rtt(s) : smoothed_rtt(tp);
		path->round_rtt = is_ours ? s->round_rtt : 0;
	}
#endif
#if READS & QUEUE_DELAY
	if (fields & QUEUE_DELAY && is_ours)
		path->queue_delay = soft_max(soft_sub(smoothed_rtt(tp), base_rtt(s)), 0);
#endif
#if READS & SINCE_LOSS
	if (fields & SINCE_LOSS && is_ours)
		path->since_loss = soft_of(s->losses.since);
#endif
#if READS & BETWEEN_LOSSES
	if (fields & BETWEEN_LOSSES && is_ours)
		path->between_losses = soft_of(s->losses.between);
#endif
#if READS & LOSS_INTERVAL
	if (fields & LOSS_INTERVAL && is_ours)
		path->loss_interval = s->losses.interval;
#endif
#if READS & MEMORY
	if (fields & MEMORY && is_ours && s->keeps_memory)
		c->memory = s->memory;
#endif
#if READS & EQUILIBRIUM_RATE
	if (fields & EQUILIBRIUM_RATE && is_ours && s->keeps_memory)
		path->equilibrium_rate = s->memory.equilibrium_rate;
#endif
#if READS & PEAK
	if (fields & PEAK && is_ours && s->keeps_epoch)
		path->peak = s->epoch.peak;
#endif
#if READS & EPOCH
	if (fields & EPOCH) {
		c->epoch = s->epoch;
		c->age = soft_div(soft_of(s->age_us), SOFT(1000000));
		c->rounds = soft_scaled(s->rounds, -32);
	}
#endif
}

/* Appends the siblings that are coupled with this socket to its own path. */
static inline void read_siblings(struct connection *c, const struct sock *sk,
				 const struct mptcp_sock *connection)
{
	for_each_sibling(context, sk, connection) {
		const struct tcp_sock *tp = KERNEL(tcp_sock, context->tcp_sock);

		if (c->count < MAX_PATHS && is_coupled(context, tp) &&
		    !(coupling == SHARED && is_separate(sk, context->tcp_sock, context->token))) {
			read_path(c, c->count, SIBLINGS, tp,
				  (const struct subflow *)tp->inet_conn.icsk_ca_priv);
			c->count++;
		}
	}
}

/* Gathers the input of the rule, the socket's own path first. False to fall back to the kernel's
 * Reno. Without siblings where the rule reads none and nothing depends on their number. Not
 * inlined: every program has one copy.
 */
static __noinline bool gather(struct connection *c, struct sock *sk, bool with_siblings)
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
	own_weight(c, sk, connection);
	read_path(c, 0, OWN, tp, subflow_of(sk));
	c->count = 1;
	if (connection && with_siblings && coupling != NEVER)
		read_siblings(c, sk, connection);
	return true;
}
