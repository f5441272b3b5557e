/* crates/control/src/rules/vegas.rs: I-TCP, section III. The weight may be a socket's own. */

#include "vegas.h"

#define KAPPA(c) ((c)->parameters[0])
#define HAS_WEIGHT

static inline soft on_round(u32 r, struct connection *c)
{
	return soft_mul(step_towards(KAPPA(c), queued(&c->paths[r])), KAPPA(c));
}
