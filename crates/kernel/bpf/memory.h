#pragma once

#include "soft.h"

/* The memory of a path: WvegasMemory, as no other rule has any. */
struct memory {
	soft alpha;
	soft equilibrium_rate;
	soft queue_delay;
};
