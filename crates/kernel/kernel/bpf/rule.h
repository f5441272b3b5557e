/* The rule named by RULE.
 *
 * A header in rules/ is the rule in crates/model/control/src/rules/ with the same operations in the
 * same order, so its results are bit-equal to the Rust rule's in Soft. It defines OWN and SIBLINGS
 * (path.h), and `increase` or DELAY_BASED (delay.h), `on_round` and `leaves_slow_start`; the rest
 * has the defaults of the trait Rule. `r` is below MAX_PATHS.
 */
#pragma once

#define QUOTED(text) #text
#define RULE_HEADER(rule) QUOTED(rules/rule.h)
#include RULE_HEADER(RULE)

#ifndef PAUSES_IN_SLOW_START
#define PAUSES_IN_SLOW_START(c) 0
#endif

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

/* The window with which the path leaves slow start, 0 to stay. */
static inline soft leaves_slow_start(u32 r, const struct connection *c)
{
	return 0;
}
#endif
