/* Lists the TCP sockets of a network namespace: the subflows of Multipath TCP, and the sockets of
 * plain TCP with one of our algorithms.
 */
#include "registration.h"
#include "subflow.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Fields of tcp_sock in struct entry, in this order. */
#define COPIED(field) \
	field(snd_cwnd) field(snd_ssthresh) field(srtt_us) field(mss_cache) field(data_segs_out) \
		field(lost) field(rate_delivered) field(rate_interval_us)
#define MEMBER(name) u32 name;
#define COPY(name) entry.name = tp->name;

/* `Entry` in src/connections.rs. */
struct entry {
	u64 cookie; /* of the connection, or of the socket of plain TCP */
	struct subflow subflow; /* all zeros where another algorithm runs */
	char algorithm[16];
	u8 local[16];
	u8 remote[16];
	u32 token; /* 0 for plain TCP */
	COPIED(MEMBER)
	u32 rate_age_us; /* time since the last acknowledgement of data, at most U32_MAX */
	u32 registration;
	u16 family;
	u16 local_port;
	u16 remote_port; /* big endian */
	u16 backup;
};

static inline void list_addresses(struct entry *entry, const struct sock_common *skc)
{
	entry->family = skc->skc_family;
	entry->local_port = skc->skc_num;
	entry->remote_port = skc->skc_dport;
	if (entry->family == AF_INET) {
		*(u32 *)entry->local = skc->skc_rcv_saddr;
		*(u32 *)entry->remote = skc->skc_daddr;
	} else {
		bpf_probe_read_kernel(entry->local, 16, &skc->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(entry->remote, 16, &skc->skc_v6_daddr);
	}
}

static inline void list_connection(struct entry *entry, struct tcp_sock *tp)
{
	const struct mptcp_sock *connection = mptcp_connection((struct sock *)tp);
	const struct mptcp_subflow_context *context;

	entry->cookie = cookie_of((struct sock *)tp, connection);
	if (!connection)
		return;
	context = KERNEL(mptcp_subflow_context, tp->inet_conn.icsk_ulp_data);
	entry->token = context->token;
	entry->backup = BPF_CORE_READ_BITFIELD(context, backup) ||
			 BPF_CORE_READ_BITFIELD(context, request_bkup);
}

static inline u32 age_us(u64 time_us)
{
	u64 age = bpf_ktime_get_ns() / 1000 - time_us;

	return age < ~0U ? age : ~0U;
}

SEC("iter/tcp")
int list(struct bpf_iter__tcp *context)
{
	struct sock_common *skc = context->sk_common;
	struct entry entry = {};
	struct tcp_sock *tp;

	if (!skc || skc->skc_state == TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	list_connection(&entry, tp);
	bpf_probe_read_kernel(&entry.subflow, sizeof(entry.subflow), &tp->inet_conn.icsk_ca_priv);
	if (entry.subflow.magic != MAGIC) {
		if (!entry.token)
			return 0;
		__builtin_memset(&entry.subflow, 0, sizeof(entry.subflow));
	}
	bpf_probe_read_kernel(entry.algorithm, 16, &tp->inet_conn.icsk_ca_ops->name);
	list_addresses(&entry, skc);
	COPIED(COPY)
	entry.rate_age_us = age_us(tp->delivered_mstamp);
	entry.registration = registration_of(tp->inet_conn.icsk_ca_ops);
	bpf_seq_write(context->meta->seq, &entry, sizeof(entry));
	return 0;
}
