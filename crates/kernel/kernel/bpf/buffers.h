/* Limits on the data that a subflow of Multipath TCP holds, and its pacing, set once per round
 * trip.
 *
 * Linux' scheduler gives a subflow without data the next fragment of 32 kB, however small its
 * window is, and the receiver waits for it. Meanwhile the connection's send buffer, the sum of its
 * subflows', fills, and subflows with large windows idle (docs/notebook/harm.md). Therefore a
 * subflow has at most one window of unsent data, and a send buffer for the time that a sibling
 * takes to send a fragment. A fragment itself cannot be made smaller here. A subflow that was idle
 * has a window to send at once, which overflows a shorter queue, unless the kernel paces it.
 */
#pragma once

#include "subflow.h"

#define SOL_TCP 6
#define TCP_NOTSENT_LOWAT 25
#define LARGEST_LIMIT (1U << 30) /* bytes */

/* Size of a socket's send buffer, windows: tcp_sndbuf_expand in the kernel. */
#define KERNELS_WINDOWS 2

/* Values of sk_pacing_status. */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

/* The most data that the scheduler assigns as a unit: 32 kB in packets of 1500 bytes. */
#define FRAGMENT_PACKETS 22

/* Largest send buffer, in windows. Set by the loader; 0 leaves all limits to the kernel. */
const volatile u32 largest_windows SEC(".rodata.buffers") = 0;

/* The socket's limit takes precedence over its namespace's, so it must not be larger. */
static inline void limit_unsent_data(struct sock *sk, bool is_late)
{
	const struct net *net = sk->__sk_common.skc_net.net;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 window = (u64)tp->snd_cwnd * tp->mss_cache;
	u32 limit = window < LARGEST_LIMIT ? window : LARGEST_LIMIT;

	if (is_late)
		limit = 2 * tp->mss_cache;
	if (net && net->ipv4.sysctl_tcp_notsent_lowat < limit)
		limit = net->ipv4.sysctl_tcp_notsent_lowat;
	if (tp->notsent_lowat != limit)
		bpf_setsockopt(sk, SOL_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit));
}

/* Windows that the send buffer must have for this subflow not to idle: the one in flight, and those
 * sent in the time that its slowest sibling takes to send a fragment. The program writes again when
 * a third of the buffer is free.
 */
static inline u32 needed_windows(const struct sock *sk, const struct mptcp_sock *connection)
{
	const struct list_head *head = &connection->conn_list, *node = head->next;
	u32 own_rtt = ((const struct tcp_sock *)sk)->srtt_us;
	u64 needed = 0;

	for (u32 i = 0; i < MAX_WALK && own_rtt && node && node != head; i++) {
		const struct mptcp_subflow_context *context = next_sibling(&node, sk, connection);

		if (!context)
			continue;
		const struct tcp_sock *tp = KERNEL(tcp_sock, context->tcp_sock);
		/* Both are times multiplied by the sibling's window. */
		u64 own_round = (u64)own_rtt * (tp->snd_cwnd ? tp->snd_cwnd : 1);
		u64 busy = own_round + (u64)FRAGMENT_PACKETS * tp->srtt_us;
		u64 windows = (3 * busy + 2 * own_round - 1) / (2 * own_round);

		if (windows > needed)
			needed = windows;
	}
	return needed < largest_windows ? needed : largest_windows;
}

/* Leaves a socket alone whose program or queue paces it. */
static inline void pace(struct sock *sk, bool needed)
{
	if (needed && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!needed && sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/* Called once per round trip. */
static inline void adapt_buffers(struct sock *sk)
{
	const struct mptcp_sock *connection = mptcp_connection(sk);

	if (!largest_windows || !connection)
		return;
	subflow_of(sk)->needed_windows = needed_windows(sk, connection);
	pace(sk, subflow_of(sk)->needed_windows > KERNELS_WINDOWS);
}

static inline u32 send_buffer_windows(struct sock *sk)
{
	u32 needed = subflow_of(sk)->needed_windows;

	return mptcp_connection(sk) && needed > KERNELS_WINDOWS ? needed : KERNELS_WINDOWS;
}
