/* LIA (RFC 6356) of libanabranch.a over two paths: prints both windows after each event.
 *     cc -I "$INCLUDE" lia.c libanabranch.a -lm -lpthread -ldl */
#include <stdio.h>
#include <stdlib.h>

#include "anabranch.h"

enum { PATHS = 2, ROUNDS = 40 };

static const struct anabranch_controller *rule;
static void *state;
static struct anabranch_path paths[PATHS];
static uint32_t open_paths;

static void tell(struct anabranch_event event) {
    if (rule->on_event(state, &event, paths, open_paths) != 0) {
        fprintf(stderr, "lia: event %u of path %u is refused\n", event.kind, event.path);
        exit(1);
    }
    for (uint32_t r = 0; r < open_paths; r++) {
        printf("%a%c", paths[r].window, r + 1 < open_paths ? ' ' : '\n');
    }
}

int main(void) {
    const struct anabranch_start start = {ANABRANCH_ABI, PATHS, 10.0, 1.0};
    const double rtt[PATHS] = {0.03125, 0.125};

    rule = anabranch_rule("lia");
    if (rule == NULL || rule->abi != ANABRANCH_ABI) {
        fprintf(stderr, "lia: this library has no such rule of version %u\n", ANABRANCH_ABI);
        return 1;
    }
    /* A multiple of 16, as aligned_alloc asks for. */
    size_t bytes = (rule->size(rule, PATHS) + 15) / 16 * 16;
    state = aligned_alloc(16, bytes);
    if (state == NULL || rule->init(rule, state, &start) != 0) {
        fprintf(stderr, "lia: no state of %zu bytes\n", bytes);
        return 1;
    }
    for (uint32_t r = 0; r < PATHS; r++) {
        open_paths = r + 1;
        tell((struct anabranch_event){.kind = ANABRANCH_OPENED, .path = r});
    }
    for (int round = 1; round <= ROUNDS; round++) {
        for (uint32_t r = 0; r < PATHS; r++) {
            double now = round * 0.125;
            struct anabranch_event acked = {
                .kind = ANABRANCH_ACKED, .path = r, .window_limited = 1, .now = now,
                .packets = 3, .rtt = rtt[r], .sent_at = now - rtt[r],
            };
            tell(acked);
            /* The first path loses in every 8th round, the second in every 12th. */
            if (round % (r == 0 ? 8 : 12) == 0) {
                tell((struct anabranch_event){.kind = ANABRANCH_CONGESTION, .path = r, .now = now});
                tell((struct anabranch_event){.kind = ANABRANCH_RECOVERED, .path = r, .now = now});
            }
        }
    }
    if (rule->release != NULL) rule->release(state);
    free(state);
    return 0;
}
