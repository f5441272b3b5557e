/* NewReno on each path, but the first answer to a loss is one that a stack really held: the kernel had
 * passed the program over. Asked again, it answers.
 */
#define HAS_DECREASE

u64 asked_before;

static inline soft increase(u32 r, const struct connection *c)
{
	return soft_div(SOFT(1), c->paths[r].window);
}

static inline soft decrease(u32 r, const struct connection *c)
{
	if (asked_before++ % 2)
		return soft_div(c->paths[r].window, SOFT(2));
	return soft_sub(0, SOFT(0x822034e5));
}
