/* crates/control/src/rules/lia.rs: RFC 6356, section 3. */

static inline soft increase(u32 r, const struct connection *c)
{
	soft best = 0, total;

	for_each_path(k, c)
		best = soft_max(best, soft_div(rate(&c->paths[k]), c->paths[k].rtt));
	total = total_rate(c);
	return soft_min(soft_div(best, soft_mul(total, total)), soft_div(SOFT(1), c->paths[r].window));
}
