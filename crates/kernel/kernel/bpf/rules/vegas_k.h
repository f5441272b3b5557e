/* crates/model/control/src/rules/vegas.rs: I-TCP, section III. */

#define OWN (WINDOW | ROUND)
#define SIBLINGS 0

#include "../delay.h"

#define ALTERNATE_SLOW_START 1
#define KAPPA(c) ((c)->parameters[0])

static inline soft on_round(u32 r, struct connection *c)
{
	soft change = soft_mul(step_towards(KAPPA(c), queued(&c->paths[r])), KAPPA(c));

	return soft_max(change, soft_sub(SOFT(2), c->paths[r].window));
}

static inline soft leaves_slow_start(const struct path *path)
{
	return ends_slow_start(path, soft_sub(path->window, soft_div(path->window, SOFT(8))));
}
