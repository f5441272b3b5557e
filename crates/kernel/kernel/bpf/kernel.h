/* The fields of kernel types that are used here. libbpf takes their offsets, and whether they
 * exist, from the running kernel's BTF when a program is loaded (CO-RE).
 */
#pragma once

#include <stdbool.h>

#include "soft.h"

/* Types that libbpf's headers expect. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file {
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

typedef struct {
	s64 counter;
} atomic64_t;

struct tcp_congestion_ops;

struct ns_common {
	u32 inum;
};

struct netns_ipv4 {
	const struct tcp_congestion_ops *tcp_congestion_control;
	u32 sysctl_tcp_wmem[3];
	u32 sysctl_tcp_notsent_lowat;
};

struct net {
	struct list_head list;
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	u8 in6_u[16];
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	u32 sk_sndbuf;
	u8 sk_userlocks : 4;
	unsigned long sk_pacing_rate;
	u32 sk_pacing_status;
	unsigned long sk_max_pacing_rate;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	u8 icsk_ca_state : 5;
	u8 icsk_backoff;
	u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;
	u64 delivered_mstamp;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
	u32 snd_nxt;
	u32 snd_una;
	u32 srtt_us;
	u32 packets_out;
	u32 max_packets_out;
	u32 lost;
	u32 data_segs_out;
	u32 notsent_lowat;
	u32 write_seq;
	u32 rate_delivered;
	u32 rate_interval_us;
	u8 is_cwnd_limited : 1;
	bool is_mptcp;
};

struct mptcp_sock {
	struct inet_connection_sock sk;
	u64 write_seq;
	u64 snd_una;
	u64 wnd_end;
	struct list_head conn_list;
};

struct mptcp_subflow_context {
	struct list_head node;
	u32 token;
	u32 request_bkup : 1;
	u32 mp_capable : 1;
	u32 mp_join : 1;
	u32 backup : 1;
	u32 closing : 1;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
};

enum tcp_ca_event {
	CA_EVENT_TX_START,
};

/* The members that are set here. */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

struct bpf_map {
	u32 id;
};

struct bpf_struct_ops_value {
	char data[1];
};

struct bpf_struct_ops_map {
	struct bpf_map map;
	struct bpf_struct_ops_value kvalue;
};

#pragma clang attribute pop

#define TCP_CONG_NON_RESTRICTED 1
#define TCP_CA_CWR 2
#define TCP_CA_Recovery 3
#define TCP_CA_Loss 4
#define AF_INET 2
#define TCP_ESTABLISHED 1
#define TCP_CLOSE_WAIT 8
#define TCP_LISTEN 10

extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym;

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* A kernel object, read-only: a load from freed or unmapped memory gives 0, not a fault. */
#define KERNEL(type, object) \
	((const struct type *)bpf_rdonly_cast(object, bpf_core_type_id_kernel(struct type)))
