/* Groups of the subflows of a connection that are coupled.
 *
 * With SHARED those with a common bottleneck are. The program reports RTTs in a ring buffer; the
 * loader (src/groups.rs) runs the detector of crates/model/control on them, and enters each
 * subflow's group in a map. A subflow without a group is coupled with all others, and so is every
 * subflow once the loader has not confirmed its groups for a while: it may have ended.
 */
#pragma once

#include "subflow.h"

#define ALWAYS 0
#define NEVER 1
#define SHARED 2

/* Set by the loader. Without SHARED it does not create the maps below, and the kernel removes the
 * code that uses them.
 */
const volatile u32 coupling SEC(".rodata.coupling") = ALWAYS;

/* Least time between two reports of a subflow: a twentieth of the detector's interval. */
#define REPORT_US 10000

/* RTTs since the last report. */
struct delays {
	u64 reported_us;
	u64 sum_us;
	u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct delays);
} delays SEC(".maps");

/* `Report` in src/groups.rs. */
struct report {
	u64 subflow; /* the address of the socket */
	u64 time_us; /* CLOCK_MONOTONIC */
	u32 token;
	u32 rtt_us; /* mean of the samples */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} reports SEC(".maps");

/* Written by src/groups.rs. Sockets are freed and their addresses used again: the token says
 * of which connection the entry is.
 */
struct membership {
	u32 token;
	u32 group; /* at least 1 */
};

/* Groups by the address of the subflow's socket. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct membership);
} groups SEC(".maps");

/* Until when the groups are valid, ns of CLOCK_MONOTONIC. The kernel keeps 15 bytes of the name of
 * a map, by which the loader finds it.
 */
volatile u64 groups_valid SEC(".bss.valid");

static inline u32 token_of(struct sock *sk)
{
	void *data = ((struct inet_connection_sock *)sk)->icsk_ulp_data;

	return data ? KERNEL(mptcp_subflow_context, data)->token : 0;
}

static __noinline void report_delay(struct sock *sk, u32 rtt_us)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct delays *d = bpf_sk_storage_get(&delays, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct report report = {(u64)sk, tp->tcp_mstamp, token_of(sk)};

	if (!d)
		return;
	d->sum_us += rtt_us;
	d->count++;
	if (tp->tcp_mstamp - d->reported_us < REPORT_US)
		return;
	report.rtt_us = d->sum_us / d->count;
	bpf_ringbuf_output(&reports, &report, sizeof(report), BPF_RB_NO_WAKEUP);
	*d = (struct delays){.reported_us = tp->tcp_mstamp};
}

/* Takes an RTT sample. */
static inline void note_delay(struct sock *sk, u32 rtt_us)
{
	if (coupling == SHARED && mptcp_connection(sk))
		report_delay(sk, rtt_us);
}

/* Called when a socket begins or ceases to run the rule. */
static inline void remove_group(struct sock *sk)
{
	u64 key = (u64)sk;

	if (coupling == SHARED)
		bpf_map_delete_elem(&groups, &key);
}

/* The group of a subflow, 0 if it is not known. */
static inline u32 group_of(const struct sock *sk, u32 token)
{
	u64 key = (u64)sk;
	const struct membership *found = bpf_map_lookup_elem(&groups, &key);

	return found && found->token == token ? found->group : 0;
}

/* Whether two subflows of a connection are known to have different groups. */
static __noinline bool is_separate(const struct sock *sk, const struct sock *sibling, u32 token)
{
	u32 own = group_of(sk, token), other = group_of(sibling, token);

	return own && other && own != other && groups_valid >= bpf_ktime_get_ns();
}
