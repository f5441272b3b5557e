/* Paces the TCP sockets of a network namespace that have an address, for tests/held.rs. */
#include "../../bpf/kernel.h"

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47

char _license[] SEC("license") = "Dual MIT/GPL";

const volatile u32 address;

SEC("iter/tcp")
int pace(struct bpf_iter__tcp *context)
{
	struct sock_common *skc = context->sk_common;
	struct tcp_sock *tp = skc ? bpf_skc_to_tcp_sock(skc) : NULL;
	u32 bytes_per_s = 1000000;

	if (tp && skc->skc_rcv_saddr == address)
		bpf_setsockopt(tp, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, 4);
	return 0;
}
