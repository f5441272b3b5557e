/* Lists the network namespaces of this kernel and their default congestion control: also those
 * that no process is in and no file names.
 */
#include "registration.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nsproxy {
	struct net *net_ns;
};

struct task_struct {
	struct task_struct *real_parent;
	struct nsproxy *nsproxy;
};

#pragma clang attribute pop

#define MAX_NAMESPACES 65536
#define MAX_ANCESTORS 1024

/* `Entry` in src/namespaces.rs. */
struct entry {
	u32 registration;
	char algorithm[16];
};

/* Defaults by the inode number of the namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_NAMESPACES);
	__type(key, u32);
	__type(value, struct entry);
} namespaces SEC(".maps");

struct walk {
	const struct list_head *node;
	const struct list_head *head;
};

static long visit(u64 i, struct walk *walk)
{
	u64 offset = bpf_core_field_offset(struct net, list);
	const struct net *net = KERNEL(net, (const char *)walk->node - offset);
	const struct tcp_congestion_ops *ops = net->ipv4.tcp_congestion_control;
	struct entry entry = {};
	u32 inode = net->ns.inum;

	if (!walk->node || walk->node == walk->head)
		return 1;
	entry.registration = registration_of(ops);
	bpf_probe_read_kernel(entry.algorithm, sizeof(entry.algorithm), &ops->name);
	bpf_map_update_elem(&namespaces, &inode, &entry, 0);
	walk->node = net->list.next;
	return 0;
}

/* Not every kernel exports the list's head. It is the entry before the first namespace, and the
 * idle task, the ancestor of all, is in the first namespace.
 */
SEC("syscall")
int list(void *context)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	u64 offset = bpf_core_field_offset(struct net, list);

	/* The idle task is its own parent. */
	for (u32 i = 0; i < MAX_ANCESTORS; i++)
		task = BPF_CORE_READ(task, real_parent);
	const struct net *first = BPF_CORE_READ(task, nsproxy, net_ns);
	struct walk walk = {(const void *)((const char *)first + offset),
			    BPF_CORE_READ(first, list.prev)};

	bpf_loop(MAX_NAMESPACES, visit, &walk, 0);
	return 0;
}
