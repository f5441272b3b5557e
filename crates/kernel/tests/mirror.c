/* The rule's header compiled for this machine, for tests/bits.rs. */
#include "../bpf/question.h"

void ask(struct question *question)
{
	struct connection c = question->connection;

	answer(question, &c);
	question->connection = c;
}
