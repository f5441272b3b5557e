/* crates/control/src/rules/vegas.rs: I-TCP, section III. */

#include "../delay.h"

#define KAPPA(c) ((c)->parameters[0])

static inline soft on_round(u32 r, struct connection *c)
{
	return soft_mul(step_towards(KAPPA(c), queued(&c->paths[r])), KAPPA(c));
}
