/* crates/model/control/src/rules/ewtcp.rs: Balia, section II-B. */

#define OWN WINDOW
#define SIBLINGS 0

#include "../path.h"

#define A(c) ((c)->parameters[0])

static inline soft increase(u32 r, const struct connection *c)
{
	return soft_div(A(c), c->paths[r].window);
}
