/* crates/model/control/src/rules/rsf_lb.rs: RSF, equation 2. */

#define OWN (WINDOW | RTT | SINCE_LOSS | LOSS_INTERVAL)
#define SIBLINGS 0

#include "../path.h"

#define MU(c) ((c)->parameters[0])

static inline soft increase(u32 r, const struct connection *c)
{
	const struct path *path = &c->paths[r];
	soft losses_per_s, growth;

	if (!soft_less(0, path->loss_interval))
		return soft_div(SOFT(1), path->window);
	losses_per_s = soft_div(rate(path), soft_max(path->loss_interval, path->since_loss));
	growth = soft_div(soft_sub(MU(c), losses_per_s), losses_per_s);
	return soft_div(soft_min(SOFT(1), growth), path->window);
}
