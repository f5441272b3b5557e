/* A connection, and the rule's results for its path r. Tests compare them with the Rust rule. */
#pragma once

#include "../../bpf/rule.h"

struct evaluated_path {
	soft window;
	soft rtt;
	soft base_rtt;
	soft round_rtt;
	soft queue_delay;
	soft since_loss;
	soft between_losses;
	soft loss_interval;
	soft peak;
};

struct evaluation {
	struct evaluated_path paths[MAX_PATHS];
	struct memory memory[MAX_PATHS];
	struct epoch epoch; /* of path r */
	soft age;
	soft rounds;
	soft parameters[MAX_PARAMETERS];
	u64 count;
	u64 r;
	soft increase;
	soft decrease;
	soft change;
	soft leaves_slow_start;
};

/* The fields that the rule reads of path k, as read_path has them; the others are 0. */
static inline void take_path(struct connection *c, u32 k, u32 fields, const struct evaluation *from)
{
	const struct evaluated_path *path = &from->paths[k];
	struct path *to = &c->paths[k];

	to->window = fields & WINDOW ? path->window : 0;
#if READS & RTT
	to->rtt = fields & RTT ? path->rtt : 0;
#endif
#if READS & ROUND
	to->base_rtt = fields & ROUND ? path->base_rtt : 0;
	to->round_rtt = fields & ROUND ? path->round_rtt : 0;
#endif
#if READS & QUEUE_DELAY
	to->queue_delay = fields & QUEUE_DELAY ? path->queue_delay : 0;
#endif
#if READS & SINCE_LOSS
	to->since_loss = fields & SINCE_LOSS ? path->since_loss : 0;
#endif
#if READS & BETWEEN_LOSSES
	to->between_losses = fields & BETWEEN_LOSSES ? path->between_losses : 0;
#endif
#if READS & LOSS_INTERVAL
	to->loss_interval = fields & LOSS_INTERVAL ? path->loss_interval : 0;
#endif
#if READS & PEAK
	to->peak = fields & PEAK ? path->peak : 0;
#endif
#if READS & MEMORY
	if (fields & MEMORY)
		c->memory = from->memory[k];
#endif
#if READS & EQUILIBRIUM_RATE
	to->equilibrium_rate = from->memory[k].equilibrium_rate;
#endif
}

/* `c` is scratch memory. */
static inline void evaluate_rule(struct evaluation *evaluation, struct connection *c)
{
	u32 r = evaluation->r & (MAX_PATHS - 1);

	c->count = evaluation->count;
	for (u32 i = 0; i < MAX_PARAMETERS; i++)
		c->parameters[i] = evaluation->parameters[i];
	for_each_path(k, c)
		take_path(c, k, k == r ? OWN : SIBLINGS, evaluation);
#if READS & EPOCH
	c->epoch = evaluation->epoch;
	c->age = evaluation->age;
	c->rounds = evaluation->rounds;
#endif
	evaluation->increase = increase(r, c);
	evaluation->decrease = decrease(r, c);
	evaluation->leaves_slow_start = leaves_slow_start(r, c);
	evaluation->change = on_round(r, c);
#if READS & MEMORY
	evaluation->memory[r] = c->memory;
#endif
}
