/* crates/model/control/src/rules/semicoupled.rs: Balia, section II-B. */

#define OWN WINDOW
#define SIBLINGS OWN

#include "../path.h"

static inline soft increase(u32 r, const struct connection *c)
{
	return soft_div(SOFT(1), total_window(c));
}
