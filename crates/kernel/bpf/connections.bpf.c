/* Lists the TCP sockets of a network namespace: the subflows of Multipath TCP, and whatever runs one of
 * our algorithms.
 */
#include "subflow.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* src/connections.rs reads it. */
struct listed {
	u64 cookie; /* of the connection, or of the socket of plain TCP */
	struct subflow subflow; /* all zeros where another algorithm runs */
	char algorithm[16];
	u8 local[16];
	u8 remote[16];
	u32 token; /* 0 for plain TCP */
	u32 window;
	u32 ssthresh;
	u32 srtt_us;
	u32 mss;
	u32 packets_sent;
	u32 packets_lost;
	u32 rate_packets;
	u32 rate_interval_us;
	u16 family;
	u16 local_port;
	u16 remote_port; /* big endian */
	u16 backup;
};

static inline void list_addresses(struct listed *listed, const struct sock_common *skc)
{
	listed->family = skc->skc_family;
	listed->local_port = skc->skc_num;
	listed->remote_port = skc->skc_dport;
	if (listed->family == AF_INET) {
		*(u32 *)listed->local = skc->skc_rcv_saddr;
		*(u32 *)listed->remote = skc->skc_daddr;
	} else {
		bpf_probe_read_kernel(listed->local, 16, &skc->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(listed->remote, 16, &skc->skc_v6_daddr);
	}
}

static inline void list_connection(struct listed *listed, struct tcp_sock *tp)
{
	const struct mptcp_sock *connection = multipath((struct sock *)tp);
	const struct mptcp_subflow_context *context;

	listed->cookie = tp->inet_conn.icsk_inet.sk.__sk_common.skc_cookie.counter;
	if (!connection)
		return;
	listed->cookie = connection->sk.icsk_inet.sk.__sk_common.skc_cookie.counter;
	context = KERNEL(mptcp_subflow_context, tp->inet_conn.icsk_ulp_data);
	listed->token = context->token;
	listed->backup = BPF_CORE_READ_BITFIELD(context, backup) ||
			 BPF_CORE_READ_BITFIELD(context, request_bkup);
}

SEC("iter/tcp")
int list(struct bpf_iter__tcp *context)
{
	struct sock_common *skc = context->sk_common;
	struct listed listed = {};
	struct tcp_sock *tp;

	if (!skc || skc->skc_state == TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	list_connection(&listed, tp);
	bpf_probe_read_kernel(&listed.subflow, sizeof(listed.subflow), &tp->inet_conn.icsk_ca_priv);
	if (listed.subflow.magic != MAGIC) {
		if (!listed.token)
			return 0;
		__builtin_memset(&listed.subflow, 0, sizeof(listed.subflow));
	}
	bpf_probe_read_kernel(listed.algorithm, 16, &tp->inet_conn.icsk_ca_ops->name);
	list_addresses(&listed, skc);
	listed.window = tp->snd_cwnd;
	listed.ssthresh = tp->snd_ssthresh;
	listed.srtt_us = tp->srtt_us;
	listed.mss = tp->mss_cache;
	listed.packets_sent = tp->data_segs_out;
	listed.packets_lost = tp->lost;
	listed.rate_packets = tp->rate_delivered;
	listed.rate_interval_us = tp->rate_interval_us;
	bpf_seq_write(context->meta->seq, &listed, sizeof(listed));
	return 0;
}
