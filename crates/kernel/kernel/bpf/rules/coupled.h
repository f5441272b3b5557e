/* crates/model/control/src/rules/coupled.rs: Balia, section II-B. */

#define OWN WINDOW
#define SIBLINGS OWN

#include "../path.h"

static inline soft increase(u32 r, const struct connection *c)
{
	soft total = total_window(c);

	return soft_div(c->paths[r].window, soft_mul(total, total));
}
