/* The rule whose name RULE is.
 *
 * A header in rules/ has the same text as its rule in crates/control/src/rules/, in the same order of
 * operations, so it answers the same bits as the rule does in Soft. It defines `increase`, or
 * DELAY_BASED and `on_round`; the rest has the defaults of the trait Rule. `r` is below MAX_PATHS.
 */
#pragma once

#include "path.h"

#define QUOTED(text) #text
#define RULE_HEADER(rule) QUOTED(rules/rule.h)
#include RULE_HEADER(RULE)

#ifndef HAS_DECREASE
static inline soft decrease(u32 r, const struct connection *c)
{
	return soft_div(c->paths[r].window, SOFT(2));
}
#endif

#ifndef HAS_ON_LOSS
static inline void on_loss(struct memory *memory)
{
}
#endif

#ifdef DELAY_BASED
static inline soft increase(u32 r, const struct connection *c)
{
	return 0;
}
#else
static inline soft on_round(u32 r, struct connection *c)
{
	return 0;
}

static inline u32 leaves_slow_start(const struct path *path)
{
	return 0;
}
#endif
