/* crates/model/control/src/rules/balia.rs: Balia, equations 1 and 2. */

#define OWN (WINDOW | RTT)
#define SIBLINGS OWN

#include "../path.h"

#define CAP(c) ((c)->parameters[0])
#define HAS_DECREASE

static inline soft increase(u32 r, const struct connection *c)
{
	soft fastest = 0, total = 0, own = rate(&c->paths[r]), a, balance;

	for_each_path(k, c) {
		soft x = rate(&c->paths[k]);

		fastest = soft_max(fastest, x);
		total = soft_add(total, x);
	}
	a = soft_div(fastest, own);
	balance = soft_mul(soft_add(SOFT(1), a), soft_add(SOFT(4), a));
	balance = soft_div(balance, SOFT(10));
	total = soft_mul(soft_mul(c->paths[r].rtt, total), total);
	return soft_mul(soft_div(own, total), balance);
}

static inline soft decrease(u32 r, const struct connection *c)
{
	soft a = soft_div(fastest_rate(c), rate(&c->paths[r]));

	return soft_mul(soft_div(c->paths[r].window, SOFT(2)), soft_min(a, CAP(c)));
}
