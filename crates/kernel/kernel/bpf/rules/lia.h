/* crates/model/control/src/rules/lia.rs: RFC 6356, section 3. */

#define OWN (WINDOW | RTT)
#define SIBLINGS OWN

#include "../path.h"

static inline soft increase(u32 r, const struct connection *c)
{
	soft best = 0, total = 0;

	for_each_path(k, c) {
		soft x = rate(&c->paths[k]);

		best = soft_max(best, soft_div(x, c->paths[k].rtt));
		total = soft_add(total, x);
	}
	return soft_min(soft_div(best, soft_mul(total, total)), soft_div(SOFT(1), c->paths[r].window));
}
