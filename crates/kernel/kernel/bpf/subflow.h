/* The state of a subflow, and how it reads the siblings of its Multipath TCP connection. */
#pragma once

#include "kernel.h"
#include "memory.h"

/* Packets since the last loss event, between the two before, and their moving average. */
struct losses {
	u32 since;
	u32 between;
	soft interval;
};

/* In the socket's 104 bytes for congestion control, the same for every algorithm. Siblings read it
 * without a lock; each word is written atomically.
 */
struct subflow {
	u32 magic; /* MAGIC: the socket runs one of these algorithms */
	u32 fraction; /* of the window, in addition to snd_cwnd; 2^-32 packets */
	u32 base_rtt_us;
	u32 round_end; /* snd_nxt when this round trip began */
	u16 round_samples;
	u16 burst_start; /* connection's write_seq where it last had little to send; BURST_UNIT */
	u16 mean_burst; /* bytes between two such places; BURST_UNIT */
	u8 is_due : 1; /* the rule, which runs once per round trip, runs at the next acknowledgement */
	u8 pauses : 1; /* slow start does not grow in this round trip */
	u8 is_held : 1; /* the scheduler assigns nothing (hold.h) */
	u8 began_late : 1; /* another path was faster when it joined */
	u8 keeps_memory : 1;
	u8 keeps_epoch : 1;
	union {
		u64 round_sum_us;
		u64 rounds; /* acknowledged in the epoch; 2^-32 windows */
	};
	union {
		soft round_rtt;
		struct {
			u32 age_us; /* of the epoch */
			u32 last_us; /* time of the last acknowledgement */
		};
	};
	struct losses losses;
	union {
		struct memory memory;
		struct epoch epoch;
	};
	struct losses prior; /* before the last loss event, to undo it if the loss was spurious */
	s64 increase; /* per acknowledged packet, since the rule last ran; 2^-32 packets */
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
	void *data = ((struct inet_connection_sock *)sk)->icsk_ulp_data;
	const struct mptcp_subflow_context *context;

	if (!((struct tcp_sock *)sk)->is_mptcp || !data)
		return NULL;
	context = KERNEL(mptcp_subflow_context, data);
	if (!BPF_CORE_READ_BITFIELD(context, mp_capable) && !BPF_CORE_READ_BITFIELD(context, mp_join))
		return NULL;
	return context->conn ? KERNEL(mptcp_sock, context->conn) : NULL;
}

/* The socket's cookie; for Multipath TCP the connection's. */
static inline u64 cookie_of(const struct sock *sk, const struct mptcp_sock *connection)
{
	return (connection ? &connection->sk.icsk_inet.sk : sk)->__sk_common.skc_cookie.counter;
}

struct walk {
	const struct list_head *node;
	u32 i;
};

static inline bool is_open(const struct walk *walk, const struct mptcp_sock *connection)
{
	return walk->i < MAX_WALK && walk->node && walk->node != &connection->conn_list;
}

/* Advances along the list of a connection's subflows; NULL where the entry is sk's own, or none of
 * this connection: it is not locked, and the list may change during the walk.
 */
static inline const struct mptcp_subflow_context *
next_sibling(struct walk *walk, const struct sock *sk, const struct mptcp_sock *connection)
{
	u64 offset = bpf_core_field_offset(struct mptcp_subflow_context, node);
	const struct mptcp_subflow_context *context =
		KERNEL(mptcp_subflow_context, (const char *)walk->node - offset);
	const struct sock *sibling = context->tcp_sock;

	walk->node = context->node.next;
	if (!sibling || sibling == sk || (const void *)context->conn != connection)
		return NULL;
	return context;
}

/* `context` is that of each sibling in turn. */
#define for_each_sibling(context, sk, connection) \
	for (struct walk walk = {(connection)->conn_list.next}; is_open(&walk, connection); walk.i++) \
		for (const struct mptcp_subflow_context *context = next_sibling(&walk, sk, connection); \
		     context; context = NULL)

/* Whether another subflow of the connection runs one of these algorithms. */
static inline bool has_sibling_of_ours(const struct sock *sk, const struct mptcp_sock *connection)
{
	for_each_sibling(context, sk, connection) {
		const struct tcp_sock *tp = KERNEL(tcp_sock, context->tcp_sock);

		if (((const struct subflow *)tp->inet_conn.icsk_ca_priv)->magic == MAGIC)
			return true;
	}
	return false;
}
