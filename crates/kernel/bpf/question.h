/* A connection, and what the rule answers about its path r: how tests compare it with the Rust rule. */
#pragma once

#include "rule.h"

struct question {
	struct connection connection;
	u64 r;
	soft increase;
	soft decrease;
	soft change;
	u64 leaves_slow_start;
};

/* `c` is a copy of the question's connection, whose memory may change. */
static inline void answer(struct question *question, struct connection *c)
{
	u32 r = question->r & (MAX_PATHS - 1);

	question->increase = increase(r, c);
	question->decrease = decrease(r, c);
	question->leaves_slow_start = leaves_slow_start(&c->paths[r]);
	question->change = on_round(r, c);
}
