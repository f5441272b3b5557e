/* The input of a rule: the paths of a connection, its memory of them, its parameters. */
#pragma once

#include "constants.h"
#include "memory.h"

#define MAX_PATHS 8

/* Fields that a rule reads: OWN of its own path, SIBLINGS of the others. Its header defines both.
 * Fields that it reads of no path do not exist.
 */
#define READS (OWN | SIBLINGS)
#define WINDOW 1
#define RTT 2
#define ROUND 4 /* base_rtt, round_rtt */
#define QUEUE_DELAY 8
#define SINCE_LOSS 16
#define MEMORY 32 /* of the own path only */
#define PEAK 64
#define EPOCH 128 /* epoch_window, age, rounds, prior_peak: of the own path only */
#define BETWEEN_LOSSES 256
#define LOSS_INTERVAL 512
#define EQUILIBRIUM_RATE 1024 /* of the memory */

/* crates/model/control/src/path.rs. Packets and seconds. */
struct path {
	soft window;
#if READS & RTT
	soft rtt;
#endif
#if READS & ROUND
	soft base_rtt;
	soft round_rtt;
#endif
#if READS & QUEUE_DELAY
	soft queue_delay;
#endif
#if READS & SINCE_LOSS
	soft since_loss;
#endif
#if READS & BETWEEN_LOSSES
	soft between_losses;
#endif
#if READS & LOSS_INTERVAL
	soft loss_interval;
#endif
#if READS & PEAK
	soft peak;
#endif
#if READS & EQUILIBRIUM_RATE
	soft equilibrium_rate;
#endif
};

/* Arguments of the methods of the trait Rule: self, paths, memory. On the stack, of 512 bytes. */
struct connection {
	struct path paths[MAX_PATHS];
#if READS & MEMORY
	struct memory memory;
#endif
#if READS & EPOCH
	struct epoch epoch;
	soft age;
	soft rounds;
#endif
	soft parameters[MAX_PARAMETERS];
	u64 count;
};

#define for_each_path(k, c) for (u32 k = 0; k < MAX_PATHS && k < (c)->count; k++)

#if READS & RTT
static inline soft rate(const struct path *path)
{
	return soft_div(path->window, path->rtt);
}

static inline soft fastest_rate(const struct connection *c)
{
	soft max = 0;

	for_each_path(k, c)
		max = soft_max(max, rate(&c->paths[k]));
	return max;
}

static inline soft total_rate(const struct connection *c)
{
	soft sum = 0;

	for_each_path(k, c)
		sum = soft_add(sum, rate(&c->paths[k]));
	return sum;
}
#endif

static inline soft total_window(const struct connection *c)
{
	soft sum = 0;

	for_each_path(k, c)
		sum = soft_add(sum, c->paths[k].window);
	return sum;
}
