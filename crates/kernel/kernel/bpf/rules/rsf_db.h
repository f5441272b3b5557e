/* crates/model/control/src/rules/rsf_db.rs: RSF, equation 1. */

#define OWN (WINDOW | QUEUE_DELAY)
#define SIBLINGS 0

#include "../path.h"

#define D_S(c) ((c)->parameters[0])

static inline soft increase(u32 r, const struct connection *c)
{
	const struct path *path = &c->paths[r];
	soft q = path->queue_delay, growth = SOFT(1);

	if (soft_less(D_S(c), soft_add(q, q)))
		growth = soft_div(soft_sub(D_S(c), q), q);
	return soft_div(growth, path->window);
}
