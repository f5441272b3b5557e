/* The registration that a congestion control belongs to. */
#pragma once

#include "kernel.h"

/* The id of the struct_ops map that contains it; any number for one that is built into the kernel
 * or comes from a module. Two registrations of one name have different ids.
 */
static inline u32 registration_of(const struct tcp_congestion_ops *ops)
{
	u64 offset = bpf_core_field_offset(struct bpf_struct_ops_map, kvalue) +
		     bpf_core_field_offset(struct bpf_struct_ops_value, data);
	const struct bpf_struct_ops_map *map = (const void *)((const char *)ops - offset);

	return BPF_CORE_READ(map, map.id);
}
