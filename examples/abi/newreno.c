/* NewReno (RFC 5681, equation 3, per acknowledged packet), each path by itself:
 *     cc -O2 -ffp-contract=off -shared -fPIC -I "$INCLUDE" newreno.c -o libnewreno.so
 *     anabranch run examples/wifi.toml -a ./libnewreno.so:newreno */
#include <math.h>
#include <string.h>

#include "anabranch.h"

static const double LARGEST = 16777216; /* packets: the host's limit, 2^24 */

enum phase { SLOW_START, AVOIDANCE, RECOVERY };
struct view { double window, ssthresh; enum phase phase; };
struct path { enum phase phase; int timed_out, kept; struct view before; };
struct state { struct anabranch_start start; struct path paths[]; };

static size_t size(const struct anabranch_controller *self, uint32_t most_paths) {
    (void)self;
    return sizeof(struct state) + most_paths * sizeof(struct path);
}

static int init(const struct anabranch_controller *self, void *state,
                const struct anabranch_start *start) {
    (void)self;
    ((struct state *)state)->start = *start;
    return 0;
}

static void resume(struct path *path, const struct anabranch_path *to) {
    path->phase = to->window < to->ssthresh ? SLOW_START : AVOIDANCE;
}

static void keep(struct path *path, const struct anabranch_path *to) {
    path->before = (struct view){to->window, to->ssthresh, path->phase};
    path->kept = path->phase != RECOVERY;
}

static void grow(struct path *path, struct anabranch_path *to, double packets) {
    for (; packets >= 1 && path->phase != RECOVERY; packets--) {
        double change = path->phase == SLOW_START ? 1 : 1 / to->window;
        to->window = fmin(to->window + change, LARGEST);
        if (path->phase == SLOW_START) {
            to->window = fmin(to->window, to->ssthresh);
            resume(path, to);
        }
    }
}

static int on_event(void *memory, const struct anabranch_event *event, struct anabranch_path *paths,
                    uint32_t count) {
    struct state *state = memory;
    struct path *path = &state->paths[event->path];
    struct anabranch_path *to = &paths[event->path];
    double half = fmax(to->window - to->window / 2, state->start.smallest_ssthresh);
    (void)count;
    switch (event->kind) {
    case ANABRANCH_OPENED:
        *path = (struct path){.phase = SLOW_START};
        break;
    case ANABRANCH_THRESHOLD:
        to->ssthresh = fmax(event->packets, state->start.smallest_ssthresh);
        if (path->phase != RECOVERY) resume(path, to);
        break;
    case ANABRANCH_ACKED:
        if (event->packets > 0) path->timed_out = 0;
        if (event->window_limited) grow(path, to, event->packets);
        break;
    case ANABRANCH_CONGESTION:
    case ANABRANCH_ECN:
        if (path->phase == RECOVERY) break;
        path->phase = RECOVERY;
        to->ssthresh = half;
        to->window = fmin(to->window, half);
        break;
    case ANABRANCH_RECOVERED:
        if (path->phase == RECOVERY) resume(path, to);
        break;
    case ANABRANCH_KEEP:
        keep(path, to);
        break;
    case ANABRANCH_TIMEOUT: /* a second one in a row is the same packet's: RFC 5681, section 3.1 */
        if (path->timed_out) break;
        keep(path, to);
        if (path->phase != RECOVERY) to->ssthresh = half;
        path->phase = SLOW_START;
        path->timed_out = 1;
        to->window = 1;
        break;
    case ANABRANCH_SPURIOUS:
        if (!path->kept) break;
        to->window = fmax(path->before.window, to->window);
        to->ssthresh = path->before.ssthresh;
        path->phase = path->before.phase;
        path->kept = path->timed_out = 0;
        break;
    case ANABRANCH_IDLE: /* RFC 5681, section 4.1 */
        if (to->window <= state->start.initial_window) break;
        to->window = state->start.initial_window;
        resume(path, to);
        break;
    }
    return 0;
}

static const struct anabranch_controller NEWRENO = {ANABRANCH_ABI, 0, size, init, on_event, NULL};

const struct anabranch_controller *anabranch_find(const char *name) {
    return strcmp(name, "newreno") == 0 ? &NEWRENO : NULL;
}
