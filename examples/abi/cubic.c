/* CUBIC (RFC 9438), each path by itself: the rule `cubic` of Anabranch, operation by operation.
 *     cc -O2 -ffp-contract=off -shared -fPIC -I "$INCLUDE" cubic.c -o libcubic.so -lm
 *     anabranch run examples/wifi.toml -a ./libcubic.so:cubic */
#include <math.h>
#include <string.h>

#include "anabranch.h"

static const double C = 0.4, LARGEST = 16777216; /* packets/s^3; the host's limit, 2^24 packets */

enum phase { SLOW_START, AVOIDANCE, RECOVERY };
struct view {               /* what an undo restores */
    double window, ssthresh, peak, prior_peak, epoch_window, age, rounds;
    enum phase phase;
};
struct path { struct view it, before; double rtt, last_ack; int timed_out, kept; };
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

/* Halley's iteration, whose guess is within 0.75 and 1.5 of the root. */
static double cube_root(double a) {
    if (a <= 0) return 0;
    double guess = 4;
    while (guess * guess * guess < a) guess *= 2;
    while (guess * guess * guess > a * 8) guess /= 2;
    double root = guess * 3 / 4;
    for (int i = 0; i < 3; i++) {
        double cube = root * root * root;
        root = root * (cube + a + a) / (cube + cube + a);
    }
    return root;
}

/* Equations 1 and 2 one RTT ahead, with fast convergence (section 4.7). */
static double w_cubic(const struct view *it, double t) {
    double w_max = it->peak < it->prior_peak ? it->peak * 17 / 20 : it->peak;
    w_max = fmax(w_max, it->epoch_window);
    double past_k = t - cube_root((w_max - it->epoch_window) / C);
    return C * past_k * past_k * past_k + w_max;
}

/* Equation 4 one RTT ahead: 9/17 packets per round trip up to the peak, then 1. */
static double w_est(const struct view *it) {
    double start = it->epoch_window, peak = fmax(it->peak, start), slope = 9.0 / 17;
    double rounds = it->rounds + 1, rounds_to_peak = (peak - start) / slope;
    return rounds <= rounds_to_peak ? start + slope * rounds : peak + rounds - rounds_to_peak;
}

static void enter(struct view *it, enum phase phase) {
    it->phase = phase;
    if (phase == SLOW_START) return;
    it->epoch_window = it->window;
    it->age = it->rounds = 0;
}

static void resume(struct view *it) {
    enter(it, it->window < it->ssthresh ? SLOW_START : AVOIDANCE);
}

static void keep(struct path *path) {
    path->before = path->it;
    path->kept = path->it.phase != RECOVERY;
}

static void acked(struct path *path, const struct anabranch_event *event) {
    struct view *it = &path->it;
    if (event->rtt > 0) path->rtt = isinf(path->rtt) ? event->rtt : path->rtt + (event->rtt - path->rtt) / 8;
    if (event->packets > 0) path->timed_out = 0;
    if (event->window_limited && it->phase == AVOIDANCE) it->age += fmax(event->now - path->last_ack, 0);
    path->last_ack = event->now;
    double packets = event->window_limited ? event->packets : 0;
    for (; packets >= 1 && it->phase != RECOVERY; packets--) {
        double w = it->window;
        if (it->phase == SLOW_START) {
            it->window = fmin(fmin(w + 1, LARGEST), it->ssthresh);
            resume(it);
        } else {
            it->rounds += 1 / w;
            double target = fmax(w_cubic(it, it->age + path->rtt), w_est(it));
            it->window = fmin(w + (fmax(fmin(target, w * 3 / 2), w) - w) / w, LARGEST);
        }
    }
}

static int on_event(void *memory, const struct anabranch_event *event, struct anabranch_path *paths,
                    uint32_t count) {
    struct state *state = memory;
    struct path *path = &state->paths[event->path];
    struct view *it = &path->it;
    double least = state->start.smallest_ssthresh, left = fmax(it->window - it->window * 3 / 10, least);
    (void)count;
    switch (event->kind) {
    case ANABRANCH_OPENED:
        *path = (struct path){.rtt = INFINITY, .last_ack = INFINITY};
        it->window = state->start.initial_window;
        it->ssthresh = INFINITY;
        break;
    case ANABRANCH_THRESHOLD:
        it->ssthresh = fmax(event->packets, least);
        if (it->phase != RECOVERY) resume(it);
        break;
    case ANABRANCH_ACKED: acked(path, event); break;
    case ANABRANCH_CONGESTION:
    case ANABRANCH_ECN:
        if (it->phase == RECOVERY) break;
        it->ssthresh = left;
        it->prior_peak = it->peak;
        it->peak = it->window;
        it->window = fmin(it->window, left);
        enter(it, RECOVERY);
        break;
    case ANABRANCH_RECOVERED: if (it->phase == RECOVERY) resume(it); break;
    case ANABRANCH_KEEP: keep(path); break;
    case ANABRANCH_TIMEOUT: /* a second one in a row is the same packet's: RFC 5681, section 3.1 */
        if (path->timed_out) break;
        keep(path);
        if (it->phase != RECOVERY) it->ssthresh = left;
        it->phase = SLOW_START;
        path->timed_out = 1;
        it->window = 1;
        it->peak = it->prior_peak = 0;
        break;
    case ANABRANCH_SPURIOUS:
        if (!path->kept) break;
        path->before.window = fmax(path->before.window, it->window);
        *it = path->before;
        path->kept = path->timed_out = 0;
        break;
    case ANABRANCH_IDLE: /* RFC 5681, section 4.1 */
        path->last_ack = event->now;
        if (it->window <= state->start.initial_window) break;
        it->window = state->start.initial_window;
        resume(it);
        break;
    }
    paths[event->path].window = it->window;
    paths[event->path].ssthresh = it->ssthresh;
    return 0;
}

static const struct anabranch_controller CUBIC = {ANABRANCH_ABI, 0, size, init, on_event, NULL};

const struct anabranch_controller *anabranch_find(const char *name) {
    return strcmp(name, "cubic") == 0 ? &CUBIC : NULL;
}
