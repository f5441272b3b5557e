/* The input of a rule: the paths of a connection, its memory of them, its parameters. */
#pragma once

#include "constants.h"
#include "soft.h"

#define MAX_PATHS 8

/* crates/control/src/path.rs without the fields of CUBIC. Packets and seconds. */
struct path {
	soft window;
	soft rtt;
	soft base_rtt;
	soft round_rtt;
	soft queue_delay;
	soft since_loss;
	soft between_losses;
	soft loss_interval;
};

/* The memory of a path: WvegasMemory, as no other rule has any. */
struct memory {
	soft alpha;
	soft equilibrium_rate;
	soft queue_delay;
};

/* What the methods of the trait Rule take: self, paths and memory. */
struct connection {
	struct path paths[MAX_PATHS];
	struct memory memory[MAX_PATHS];
	soft parameters[MAX_PARAMETERS];
	u64 count;
};

#define for_each_path(k, c) for (u32 k = 0; k < MAX_PATHS && k < (c)->count; k++)

static inline soft rate(const struct path *path)
{
	return soft_div(path->window, path->rtt);
}

static inline soft total_rate(const struct connection *c)
{
	soft sum = 0;

	for_each_path(k, c)
		sum = soft_add(sum, rate(&c->paths[k]));
	return sum;
}

static inline soft fastest_rate(const struct connection *c)
{
	soft max = 0;

	for_each_path(k, c)
		max = soft_max(max, rate(&c->paths[k]));
	return max;
}

static inline soft total_window(const struct connection *c)
{
	soft sum = 0;

	for_each_path(k, c)
		sum = soft_add(sum, c->paths[k].window);
	return sum;
}
