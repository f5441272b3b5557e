/* NewReno on each path, but every other decrease is a value seen on a real kernel that skipped the
 * program and used uninitialised stack memory as its result.
 */
#define OWN WINDOW
#define SIBLINGS 0

#include "../../bpf/path.h"

#define HAS_DECREASE

u64 calls;

static inline soft increase(u32 r, const struct connection *c)
{
	return soft_div(SOFT(1), c->paths[r].window);
}

static inline soft decrease(u32 r, const struct connection *c)
{
	if (calls++ % 2)
		return soft_div(c->paths[r].window, SOFT(2));
	return soft_sub(0, SOFT(0x822034e5));
}
