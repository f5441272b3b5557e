/* crates/model/control/src/rules/vegas.rs: I-TCP, section III. */

#define OWN (WINDOW | ROUND)
#define SIBLINGS 0

#include "../delay.h"

#define PAUSES_IN_SLOW_START(c) 1
#define KAPPA(c) ((c)->parameters[0])

static inline soft on_round(u32 r, struct connection *c)
{
	soft change = soft_mul(step_towards(KAPPA(c), queued(&c->paths[r])), KAPPA(c));

	return soft_max(change, soft_sub(SOFT(2), c->paths[r].window));
}

static inline soft leaves_slow_start(u32 r, const struct connection *c)
{
	return ends_slow_start(&c->paths[r], less_an_eighth(&c->paths[r]));
}
