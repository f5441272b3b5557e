/* The state of a subflow, and how it reads the siblings of its Multipath TCP connection. */
#pragma once

#include "kernel.h"
#include "path.h"

/* In the socket's 104 bytes for congestion control, the same for every algorithm. Siblings read it
 * without a lock; each word is written atomically.
 */
struct subflow {
	u32 magic; /* MAGIC: the socket runs one of these algorithms */
	u32 fraction; /* of the window, in addition to snd_cwnd; 2^-32 packets */
	u32 base_rtt_us;
	u32 since_loss;
	u32 between_losses;
	u32 round_end; /* snd_nxt when this round trip began */
	u32 round_samples;
	u16 round_ended; /* by the acknowledgement that is being processed */
	u16 holds; /* slow start does not grow in this round trip */
	u64 round_sum_us;
	soft round_rtt;
	soft loss_interval;
	struct memory memory;
	/* before the last loss event, to undo it if the loss was spurious */
	u32 prior_since_loss;
	u32 prior_between_losses;
	soft prior_loss_interval;
	soft last_increase; /* for `status` */
};

_Static_assert(sizeof(struct subflow) <= 104, "struct subflow does not fit in icsk_ca_priv");

#define MAGIC 0x616e6162

/* Bound of the walk over the list of subflows. `ip mptcp limits` allows eight more than the first,
 * and a few that are closing may come before them.
 */
#define MAX_WALK 16

static inline struct subflow *subflow_of(struct sock *sk)
{
	return (struct subflow *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* The connection that a socket is a subflow of; NULL for plain TCP, including a connection whose
 * peer does not support Multipath TCP. The kernel may clear icsk_ulp_data before is_mptcp.
 */
static inline const struct mptcp_sock *mptcp_connection(struct sock *sk)
{
	const struct mptcp_subflow_context *context;
	void *data;

	if (!((struct tcp_sock *)sk)->is_mptcp)
		return NULL;
	data = ((struct inet_connection_sock *)sk)->icsk_ulp_data;
	if (!data)
		return NULL;
	context = KERNEL(mptcp_subflow_context, data);
	if (!BPF_CORE_READ_BITFIELD(context, mp_capable) && !BPF_CORE_READ_BITFIELD(context, mp_join))
		return NULL;
	if (!context->conn)
		return NULL;
	return KERNEL(mptcp_sock, context->conn);
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
	if (!tp->srtt_us)
		return false;
	/* Without the field (before Linux 6.19 and its backports) a subflow that closes leaves the
	 * list or changes its state.
	 */
	if (bpf_core_field_exists(context->closing) && BPF_CORE_READ_BITFIELD(context, closing))
		return false;
	if (BPF_CORE_READ_BITFIELD(context, backup) || BPF_CORE_READ_BITFIELD(context, request_bkup))
		return tp->packets_out > 0;
	return true;
}

/* Fills in path k. Of a sibling with another algorithm only the window and the RTT are known. */
static inline void read_path(struct connection *c, u32 k, const struct tcp_sock *tp,
			     const struct subflow *s)
{
	struct path *path = &c->paths[k & (MAX_PATHS - 1)];
	struct memory *memory = &c->memory[k & (MAX_PATHS - 1)];
	bool is_ours = s->magic == MAGIC;

	path->window = soft_scaled((u64)tp->snd_cwnd << 32 | (is_ours ? s->fraction : 0), -32);
	path->rtt = soft_div(soft_of(tp->srtt_us), SOFT(8000000));
	path->base_rtt = path->rtt;
	path->round_rtt = path->queue_delay = 0;
	path->since_loss = path->between_losses = path->loss_interval = 0;
	memory->alpha = memory->equilibrium_rate = memory->queue_delay = 0;
	if (!is_ours)
		return;
	path->base_rtt = soft_div(soft_of(s->base_rtt_us), SOFT(1000000));
	path->round_rtt = s->round_rtt;
	path->queue_delay = soft_max(soft_sub(path->rtt, path->base_rtt), 0);
	path->since_loss = soft_of(s->since_loss);
	path->between_losses = soft_of(s->between_losses);
	path->loss_interval = s->loss_interval;
	memory->alpha = s->memory.alpha;
	memory->equilibrium_rate = s->memory.equilibrium_rate;
	memory->queue_delay = s->memory.queue_delay;
}

/* Appends the siblings to this socket's own path. The connection is not locked and the list may
 * change during the walk: hence the bound, and the check which connection an entry belongs to.
 */
static inline void read_siblings(struct connection *c, const struct sock *sk,
				 const struct mptcp_sock *connection)
{
	const struct list_head *head = &connection->conn_list, *node = head->next;

	for (u32 i = 0; i < MAX_WALK && node && node != head && c->count < MAX_PATHS; i++) {
		u64 offset = bpf_core_field_offset(struct mptcp_subflow_context, node);
		const struct mptcp_subflow_context *context =
			KERNEL(mptcp_subflow_context, (const char *)node - offset);
		const struct sock *sibling = context->tcp_sock;

		node = context->node.next;
		if (!sibling || sibling == sk || (const void *)context->conn != connection)
			continue;
		const struct tcp_sock *tp = KERNEL(tcp_sock, sibling);

		if (is_coupled(context, tp)) {
			read_path(c, c->count, tp,
				  (const struct subflow *)tp->inet_conn.icsk_ca_priv);
			c->count++;
		}
	}
}

/* Whether another subflow of the connection runs one of these algorithms. */
static inline bool has_sibling_of_ours(const struct sock *sk, const struct mptcp_sock *connection)
{
	const struct list_head *head = &connection->conn_list, *node = head->next;

	for (u32 i = 0; i < MAX_WALK && node && node != head; i++) {
		u64 offset = bpf_core_field_offset(struct mptcp_subflow_context, node);
		const struct mptcp_subflow_context *context =
			KERNEL(mptcp_subflow_context, (const char *)node - offset);
		const struct sock *sibling = context->tcp_sock;

		node = context->node.next;
		if (!sibling || sibling == sk || (const void *)context->conn != connection)
			continue;
		const struct tcp_sock *tp = KERNEL(tcp_sock, sibling);

		if (((const struct subflow *)tp->inet_conn.icsk_ca_priv)->magic == MAGIC)
			return true;
	}
	return false;
}
