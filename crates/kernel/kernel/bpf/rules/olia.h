/* crates/model/control/src/rules/olia.rs: draft-khalili-mptcp-congestion-control, section 3. */

#define OWN (WINDOW | RTT | SINCE_LOSS | BETWEEN_LOSSES)
#define SIBLINGS OWN

#include "../path.h"

#define ALPHA(c) ((c)->parameters[0])

static inline soft quality(const struct path *path)
{
	soft packets_per_loss = soft_max(path->since_loss, path->between_losses);

	return soft_div(packets_per_loss, soft_mul(path->rtt, path->rtt));
}

static inline soft alpha(u32 r, const struct connection *c)
{
	soft largest = 0, best = 0;
	u64 size_of_m = 0, size_of_c = 0;
	u32 m = 0, b = 0;

	/* M and B as sets of bits, without a branch for the verifier to follow, and without an array,
	 * which the stack has no space for: one that exceeds the largest so far empties the set.
	 */
	for_each_path(k, c) {
		soft window = c->paths[k].window, packets = quality(&c->paths[k]);

		m &= soft_less(largest, window) - 1;
		b &= soft_less(best, packets) - 1;
		largest = soft_max(largest, window);
		best = soft_max(best, packets);
		m |= soft_at_least(window, largest) << k;
		b |= soft_at_least(packets, best) << k;
	}
	for_each_path(k, c) {
		size_of_m += m >> k & 1;
		size_of_c += (b & ~m) >> k & 1;
	}
	if (!size_of_c)
		return 0;
	if ((b & ~m) >> r & 1)
		return soft_div(SOFT(1), soft_of(c->count * size_of_c));
	if (m >> r & 1)
		return soft_sub(0, soft_div(SOFT(1), soft_of(c->count * size_of_m)));
	return 0;
}

static inline soft increase(u32 r, const struct connection *c)
{
	const struct path *path = &c->paths[r];
	soft total = total_rate(c);

	return soft_add(soft_div(soft_div(rate(path), path->rtt), soft_mul(total, total)),
			ALPHA(c) ? soft_div(alpha(r, c), path->window) : 0);
}
