/* The rule's header compiled for the kernel, for tests/bits.rs. */
#include "../../bpf/kernel.h"
#include "evaluation.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* The context can only be read at constant offsets, and the stack has no space for both. */
struct evaluation copy;
struct connection scratch;

SEC("syscall")
int evaluate(struct evaluation *evaluation)
{
	copy = *evaluation;
	__builtin_memset(&scratch, 0, sizeof(scratch));
	evaluate_rule(&copy, &scratch);
	*evaluation = copy;
	return 0;
}
