/* A connection, and the rule's results for its path r. Tests compare them with the Rust rule. */
#pragma once

#include "rule.h"

struct evaluation {
	struct connection connection;
	u64 r;
	soft increase;
	soft decrease;
	soft change;
	soft leaves_slow_start;
};

/* `c` is a copy of evaluation->connection; the rule may change its memory. */
static inline void evaluate_rule(struct evaluation *evaluation, struct connection *c)
{
	u32 r = evaluation->r & (MAX_PATHS - 1);

	evaluation->increase = increase(r, c);
	evaluation->decrease = decrease(r, c);
	evaluation->leaves_slow_start = leaves_slow_start(&c->paths[r]);
	evaluation->change = on_round(r, c);
}
