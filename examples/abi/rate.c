/* A controller by delivery rates, each path by itself: it is paced at a gain times the largest rate
 * of ten round trips, with two products of that rate and the smallest RTT of 10 s in flight.
 *     cc -O2 -ffp-contract=off -shared -fPIC -I "$INCLUDE" rate.c -o librate.so -lm
 *     anabranch run examples/wifi.toml -a ./librate.so:rate */
#include <math.h>
#include <string.h>

#include "anabranch.h"

enum { ROUNDS = 10, PHASES = 8 };
static const double STARTUP = 2.885;          /* 2/ln 2: the rate doubles every round trip */
static const double RTT_LASTS_S = 10, PROBE_S = 0.2, LEAST = 4;
static const double GAINS[PHASES] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};

struct path {
    double rates[ROUNDS];   /* the largest of each of the last round trips, packets/s */
    double delivered, round_ends;  /* packets: a round is over when what was sent is delivered */
    double rtt, rtt_at, probe_until, phase_at, full_rate;
    int round, phase, steady_rounds, filled;
};
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

static double largest(const struct path *path) {
    double found = 0;
    for (int i = 0; i < ROUNDS; i++) found = fmax(found, path->rates[i]);
    return found;
}

/* A round trip has ended: a new place for rates, and whether three rounds grew by less than 1/4. */
static void end_round(struct path *path, double in_flight) {
    double rate = largest(path);
    path->round_ends = path->delivered + in_flight;
    path->round = (path->round + 1) % ROUNDS;
    path->rates[path->round] = 0;
    if (path->filled) return;
    if (rate >= 1.25 * path->full_rate) {
        path->full_rate = rate;
        path->steady_rounds = 0;
    } else if (++path->steady_rounds >= 3) {
        path->filled = 1;
    }
}

static void sample(struct path *path, struct anabranch_path *to,
                   const struct anabranch_event *event) {
    double expired = event->now > path->rtt_at + RTT_LASTS_S;
    path->delivered += event->packets;
    if (event->rtt > 0 && (event->rtt < path->rtt || expired)) {
        if (expired) path->probe_until = event->now + PROBE_S;
        path->rtt = event->rtt;
        path->rtt_at = event->now;
    }
    double *rate = &path->rates[path->round];
    if (event->delivery_rate > 0 && (!event->app_limited || event->delivery_rate > largest(path))) {
        *rate = fmax(*rate, event->delivery_rate);
    }
    if (path->delivered >= path->round_ends && !event->app_limited) {
        end_round(path, event->in_flight);
    }
    if (largest(path) <= 0 || isinf(path->rtt)) return;
    double product = largest(path) * path->rtt, gain = STARTUP;
    if (path->filled) {
        if (event->now > path->phase_at + path->rtt) {
            path->phase = (path->phase + 1) % PHASES;
            path->phase_at = event->now;
        }
        gain = GAINS[path->phase];
    }
    double window = (path->filled ? 2 : STARTUP) * product;
    to->pacing_rate = gain * largest(path);
    to->window = event->now < path->probe_until ? LEAST : fmax(window, LEAST);
    if (!path->filled) to->window = fmax(to->window, 10);
}

static int on_event(void *memory, const struct anabranch_event *event, struct anabranch_path *paths,
                    uint32_t count) {
    struct state *state = memory;
    struct path *path = &state->paths[event->path];
    (void)count;
    switch (event->kind) {
    case ANABRANCH_OPENED:
        *path = (struct path){.rtt = INFINITY};
        break;
    case ANABRANCH_SAMPLE:
        sample(path, &paths[event->path], event);
        break;
    case ANABRANCH_TIMEOUT: /* what was in flight is lost; the next sample sets the window */
        paths[event->path].window = LEAST;
        break;
    }
    return 0;
}

static const struct anabranch_controller RATE = {
    ANABRANCH_ABI, ANABRANCH_PER_PACKET, size, init, on_event, NULL,
};

const struct anabranch_controller *anabranch_find(const char *name) {
    return strcmp(name, "rate") == 0 ? &RATE : NULL;
}
