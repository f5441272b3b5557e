/* crates/control/src/rules/balia.rs: Balia, equations 1 and 2. */

#define CAP(c) ((c)->parameters[0])
#define HAS_DECREASE

static inline soft rate_ratio(u32 r, const struct connection *c)
{
	return soft_div(fastest_rate(c), rate(&c->paths[r]));
}

static inline soft increase(u32 r, const struct connection *c)
{
	const struct path *path = &c->paths[r];
	soft total = total_rate(c), a = rate_ratio(r, c);
	soft balance = soft_mul(soft_add(SOFT(1), a), soft_add(SOFT(4), a));

	balance = soft_div(balance, SOFT(10));
	total = soft_mul(soft_mul(path->rtt, total), total);
	return soft_mul(soft_div(rate(path), total), balance);
}

static inline soft decrease(u32 r, const struct connection *c)
{
	return soft_mul(soft_div(c->paths[r].window, SOFT(2)), soft_min(rate_ratio(r, c), CAP(c)));
}
