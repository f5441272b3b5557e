/* crates/model/control/src/rules/wvegas.rs: wVegas, algorithm 3. */

#define OWN (WINDOW | ROUND | MEMORY | EQUILIBRIUM_RATE)
#define SIBLINGS EQUILIBRIUM_RATE

#include "../delay.h"

#define TOTAL_ALPHA(c) ((c)->parameters[0])
#define MIN_ALPHA(c) ((c)->parameters[1])
#define DRAIN(c) ((c)->parameters[2])
#define VEGAS(c) ((c)->parameters[3])
#define PAUSES_IN_SLOW_START(c) !!VEGAS(c)
#define HAS_DECREASE
#define HAS_ON_LOSS

static inline soft decrease(u32 r, const struct connection *c)
{
	return soft_div(c->paths[r].window, VEGAS(c) ? SOFT(4) : SOFT(2));
}

static inline soft on_round(u32 r, struct connection *c)
{
	const struct path *path = &c->paths[r];
	struct memory *memory = &c->memory;
	soft rtt = path->round_rtt, diff = queued(path);
	soft alpha = soft_max(memory->alpha, MIN_ALPHA(c)), window;

	if (soft_at_least(diff, alpha)) {
		soft total = 0;

		memory->equilibrium_rate = soft_div(path->window, rtt);
		c->paths[r].equilibrium_rate = memory->equilibrium_rate;
		for_each_path(k, c)
			total = soft_add(total, c->paths[k].equilibrium_rate);
		alpha = soft_mul(soft_div(memory->equilibrium_rate, total), TOTAL_ALPHA(c));
		alpha = soft_max(alpha, MIN_ALPHA(c));
	}
	memory->alpha = alpha;

	window = soft_add(path->window, step_towards(alpha, diff));
	if (!DRAIN(c) || soft_less(alpha, diff)) {
		soft q = soft_sub(rtt, path->base_rtt), *smallest = &memory->queue_delay;

		if (!*smallest || soft_less(q, *smallest))
			*smallest = q;
		if (soft_less(0, q) && soft_at_least(q, soft_add(*smallest, *smallest))) {
			window = soft_div(soft_mul(window, path->base_rtt), soft_add(rtt, rtt));
			*smallest = 0;
		}
	}
	return soft_sub(soft_max(window, SOFT(2)), path->window);
}

static inline void on_loss(struct memory *memory)
{
	memory->equilibrium_rate = 0;
	memory->queue_delay = 0;
}

static inline soft leaves_slow_start(u32 r, const struct connection *c)
{
	const struct path *path = &c->paths[r];
	soft in_flight = soft_div(soft_mul(path->window, path->base_rtt), path->round_rtt);

	return ends_slow_start(path, VEGAS(c) ? less_an_eighth(path)
					      : soft_add(in_flight, SOFT(1)));
}
