/* The weight of a connection, which may change while it runs: the parameter WEIGHT of the rule. */
#pragma once

#include "path.h"
#include "subflow.h"

#ifdef WEIGHT
/* The parameter WEIGHT of single sockets, by cookie; for Multipath TCP the connection's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, soft);
} weights SEC(".maps");

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

/* For `status`. */
static inline void show_weight(struct subflow *s, const struct connection *c)
{
	s->memory.alpha = c->parameters[WEIGHT];
}
#else
static inline void own_weight(struct connection *c, const struct sock *sk,
			      const struct mptcp_sock *connection)
{
}

static inline void remove_weight(struct sock *sk)
{
}

static inline void show_weight(struct subflow *s, const struct connection *c)
{
}
#endif
