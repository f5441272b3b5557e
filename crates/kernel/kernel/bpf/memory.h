#pragma once

#include "soft.h"

/* The memory of a path: WvegasMemory, as no other rule has any. */
struct memory {
	soft alpha;
	soft equilibrium_rate;
	soft queue_delay;
};

/* The stage of congestion avoidance, for CUBIC. Packets; 0: none yet. */
struct epoch {
	soft window; /* at its start */
	soft peak; /* window at the last loss */
	soft prior_peak; /* window at the loss before that */
};
