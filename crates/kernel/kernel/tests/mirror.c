/* The rule's header compiled for this machine, for tests/bits.rs. */
#include "common/evaluation.h"

void evaluate(struct evaluation *evaluation)
{
	struct connection c = {};

	evaluate_rule(evaluation, &c);
}
