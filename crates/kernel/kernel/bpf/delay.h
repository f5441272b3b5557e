/* Shared by the delay-based rules: crates/model/control/src/rules/vegas.rs. */
#pragma once

#include "path.h"

#define DELAY_BASED

static inline soft queued(const struct path *path)
{
	soft queue = soft_mul(path->window, soft_sub(path->round_rtt, path->base_rtt));

	return soft_div(queue, path->round_rtt);
}

static inline soft step_towards(soft target, soft queued)
{
	if (soft_less(queued, target))
		return SOFT(1);
	if (soft_less(target, queued))
		return soft_sub(0, SOFT(1));
	return 0;
}

static inline soft ends_slow_start(const struct path *path, soft reduced)
{
	if (!soft_less(SOFT(1), queued(path)))
		return 0;
	return soft_min(soft_max(reduced, SOFT(2)), path->window);
}

static inline soft less_an_eighth(const struct path *path)
{
	return soft_sub(path->window, soft_div(path->window, SOFT(8)));
}
