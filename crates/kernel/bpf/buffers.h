/* Limits of what a subflow of Multipath TCP may hold.
 *
 * Linux' scheduler gives a subflow without data the next 32 kB, however small its window is, and
 * the receiver waits for them. Meanwhile the connection's send buffer, the sum of its subflows',
 * fills, and subflows with large windows idle: with the kernel's buffers a coupled connection can
 * get less than its best path alone (docs/harm.md). The remedy is both larger buffers and less
 * unsent data in each subflow; neither suffices alone.
 */
#pragma once

#include "subflow.h"

#define SOL_TCP 6
#define TCP_NOTSENT_LOWAT 25

/* Size of a socket's send buffer, windows: tcp_sndbuf_expand in the kernel. */
#define KERNELS_WINDOWS 2

/* Set by the loader; zeros leave both to the kernel. */
const volatile struct {
	u32 windows; /* send buffer, in windows */
	u32 notsent; /* unsent data, bytes */
} buffers SEC(".rodata.buffers") = {};

/* The socket's limit takes precedence over its namespace's, so it must not be larger. */
static inline void limit_unsent_data(struct sock *sk)
{
	const struct net *net = sk->__sk_common.skc_net.net;
	u32 limit = buffers.notsent;

	if (!limit || !mptcp_connection(sk))
		return;
	if (net && net->ipv4.sysctl_tcp_notsent_lowat <= limit)
		return;
	bpf_setsockopt(sk, SOL_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit));
}

static inline u32 send_buffer_windows(struct sock *sk)
{
	return buffers.windows && mptcp_connection(sk) ? buffers.windows : KERNELS_WINDOWS;
}
