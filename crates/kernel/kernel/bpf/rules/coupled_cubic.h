/* crates/model/control/src/rules/coupled_cubic.rs and cubic.rs: RFC 9438. */

#define OWN (WINDOW | RTT | PEAK | EPOCH)
#define SIBLINGS (WINDOW | RTT | PEAK)
#define HAS_DECREASE

#include "../path.h"

/* Doublings and halvings from 4 to within twice the root of any W_max / C. */
#define MAX_STEPS 64

SOFT_GLOBAL soft cube_root(soft a)
{
	soft guess = SOFT(4), root;

	if (soft_at_least(0, a))
		return 0;
	for (u32 i = 0; i < MAX_STEPS; i++) {
		if (!soft_less(soft_mul(soft_mul(guess, guess), guess), a))
			break;
		guess = soft_mul(guess, SOFT(2));
	}
	for (u32 i = 0; i < MAX_STEPS; i++) {
		if (!soft_less(soft_mul(a, SOFT(8)), soft_mul(soft_mul(guess, guess), guess)))
			break;
		guess = soft_div(guess, SOFT(2));
	}
	root = soft_div(soft_mul(guess, SOFT(3)), SOFT(4));
	for (u32 i = 0; i < 3; i++) {
		soft cube = soft_mul(soft_mul(root, root), root);
		soft towards = soft_add(soft_add(cube, a), a);

		root = soft_div(soft_mul(root, towards), soft_add(soft_add(cube, cube), a));
	}
	return root;
}

static inline soft cubic_window(const struct epoch *epoch, soft t, soft c)
{
	soft w_max = epoch->peak, past_k, k;

	if (soft_less(epoch->peak, epoch->prior_peak))
		w_max = soft_div(soft_mul(epoch->peak, SOFT(17)), SOFT(20));
	w_max = soft_max(w_max, epoch->window);
	k = cube_root(soft_div(soft_sub(w_max, epoch->window), c));
	past_k = soft_sub(t, k);
	return soft_add(soft_mul(soft_mul(soft_mul(c, past_k), past_k), past_k), w_max);
}

static inline soft reno_window(const struct epoch *epoch, soft windows, soft slope)
{
	soft start = epoch->window, slope_to_peak = soft_div(soft_mul(slope, SOFT(9)), SOFT(17));
	soft peak = soft_max(epoch->peak, start), rounds = soft_add(windows, SOFT(1));
	soft rounds_to_peak = soft_div(soft_sub(peak, start), slope_to_peak);

	if (soft_at_least(rounds_to_peak, rounds))
		return soft_add(start, soft_mul(slope_to_peak, rounds));
	return soft_sub(soft_add(peak, soft_mul(slope, rounds)), soft_mul(slope, rounds_to_peak));
}

static inline soft lasting_window(const struct path *path)
{
	return soft_max(path->window, path->peak);
}

static inline soft increase(u32 r, const struct connection *c)
{
	const struct path *path = &c->paths[r];
	soft w = path->window, t = soft_add(c->age, path->rtt), own = lasting_window(path);
	soft total = 0, cubic = 0, reno = 0, target;

	for_each_path(k, c)
		total = soft_add(total, soft_div(lasting_window(&c->paths[k]), c->paths[k].rtt));
	for_each_path(k, c) {
		soft window = lasting_window(&c->paths[k]), ratio = soft_div(own, window);
		soft share = soft_div(soft_div(window, c->paths[k].rtt), total);
		soft square = soft_mul(share, share);

		cubic = soft_max(cubic, soft_mul(soft_mul(square, square), ratio));
		reno = soft_max(reno, soft_mul(square, ratio));
	}
	cubic = soft_mul(c->parameters[0], soft_min(cubic, SOFT(1)));
	target = soft_max(cubic_window(&c->epoch, t, cubic),
			  reno_window(&c->epoch, c->rounds, soft_min(reno, SOFT(1))));
	target = soft_max(soft_min(target, soft_div(soft_mul(w, SOFT(3)), SOFT(2))), w);
	return soft_div(soft_sub(target, w), w);
}

static inline soft decrease(u32 r, const struct connection *c)
{
	return soft_div(soft_mul(c->paths[r].window, SOFT(3)), SOFT(10));
}
