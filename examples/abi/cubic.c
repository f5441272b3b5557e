/* CUBIC (RFC 9438), each path by itself: the rule `cubic` of Anabranch, operation by operation.
 *     cc -O2 -ffp-contract=off -shared -fPIC -I "$INCLUDE" cubic.c -o libcubic.so -lm
 *     anabranch run examples/wifi.toml -a ./libcubic.so:cubic */
#include <math.h>
#include <string.h>

#include "anabranch.h"

static const double C = 0.4, LARGEST = 16777216; /* packets/s^3; the host's limit, 2^24 packets */

enum phase { SLOW_START, AVOIDANCE, RECOVERY };
struct view { enum phase phase; double window, ssthresh, peak, prior_peak, epoch, age, rounds; };
struct path { struct view it, before; double rtt, last_ack; int timed_out, kept; };
struct state { struct anabranch_start start; struct path paths[]; };

static size_t size(const struct anabranch_controller *self, uint32_t most_paths) {
    return (void)self, sizeof(struct state) + most_paths * sizeof(struct path);
}

static int init(const struct anabranch_controller *self, void *state,
                const struct anabranch_start *start) {
    ((struct state *)state)->start = *start;
    return (void)self, 0;
}

/* Halley's iteration, from a guess within 0.75 and 1.5 of the root. */
static double cube_root(double a) {
    double root = 4, cube;
    if (a <= 0) return 0;
    while (root * root * root < a) root *= 2;
    while (root * root * root > a * 8) root /= 2;
    root = root * 3 / 4;
    for (int i = 0; i < 3; i++)
        cube = root * root * root, root = root * (cube + a + a) / (cube + cube + a);
    return root;
}

/* Equations 1 and 4 at time t; W_est grows by 9/17 a round up to the peak, then by 1. */
static double target(const struct view *it, double t) {
    double w_max = it->peak < it->prior_peak ? it->peak * 17 / 20 : it->peak; /* section 4.7 */
    w_max = fmax(w_max, it->epoch);
    double past_k = t - cube_root((w_max - it->epoch) / C);
    double cubic = C * past_k * past_k * past_k + w_max;
    double peak = fmax(it->peak, it->epoch), rounds = it->rounds + 1, slope = 9.0 / 17;
    double to_peak = (peak - it->epoch) / slope;
    return fmax(cubic, rounds <= to_peak ? it->epoch + slope * rounds : peak + rounds - to_peak);
}

static void set(struct view *it, enum phase phase) {
    it->phase = phase;
    if (phase != SLOW_START) it->epoch = it->window, it->age = it->rounds = 0;
}

static void resume(struct view *it) { set(it, it->window < it->ssthresh ? SLOW_START : AVOIDANCE); }

static void acked(struct path *path, struct view *it, const struct anabranch_event *e) {
    double packets = e->window_limited ? e->packets : 0, rtt = e->rtt;
    if (rtt > 0) path->rtt = isinf(path->rtt) ? rtt : path->rtt + (rtt - path->rtt) / 8;
    if (e->packets > 0) path->timed_out = 0;
    if (e->window_limited && it->phase == AVOIDANCE) it->age += fmax(e->now - path->last_ack, 0);
    path->last_ack = e->now;
    for (double w = it->window; packets >= 1 && it->phase != RECOVERY; packets--, w = it->window) {
        if (it->phase == SLOW_START) {
            it->window = fmin(fmin(w + 1, LARGEST), it->ssthresh);
            resume(it);
        } else {
            it->rounds += 1 / w;
            double next = fmax(fmin(target(it, it->age + path->rtt), w * 3 / 2), w);
            it->window = fmin(w + (next - w) / w, LARGEST);
        }
    }
}

static int on_event(void *memory, const struct anabranch_event *event, struct anabranch_path *to,
                    uint32_t count) {
    struct state *state = memory;
    struct path *path = &state->paths[event->path];
    struct view *it = &path->it;
    double least = state->start.smallest_ssthresh, first = state->start.initial_window;
    double left = fmax(it->window - it->window * 3 / 10, least);
    to += event->path, (void)count;
    if (event->kind == ANABRANCH_OPENED) {
        *path = (struct path){{.window = first, .ssthresh = INFINITY}, .rtt = INFINITY};
        path->last_ack = INFINITY;
    } else if (event->kind == ANABRANCH_THRESHOLD) {
        it->ssthresh = fmax(event->packets, least);
        if (it->phase != RECOVERY) resume(it);
    } else if (event->kind == ANABRANCH_ACKED) {
        acked(path, it, event);
    } else if (event->kind == ANABRANCH_CONGESTION || event->kind == ANABRANCH_ECN) {
        if (it->phase == RECOVERY) return 0;
        it->prior_peak = it->peak, it->peak = it->window;
        it->window = fmin(it->window, it->ssthresh = left);
        set(it, RECOVERY);
    } else if (event->kind == ANABRANCH_RECOVERED && it->phase == RECOVERY) {
        resume(it);
    } else if (event->kind == ANABRANCH_KEEP || event->kind == ANABRANCH_TIMEOUT) {
        if (event->kind == ANABRANCH_TIMEOUT && path->timed_out) return 0; /* RFC 5681, 3.1 */
        path->before = *it, path->kept = it->phase != RECOVERY;
        if (event->kind == ANABRANCH_KEEP) return 0;
        if (it->phase != RECOVERY) it->ssthresh = left;
        it->phase = SLOW_START, path->timed_out = 1;
        it->window = 1, it->peak = it->prior_peak = 0;
    } else if (event->kind == ANABRANCH_SPURIOUS && path->kept) {
        path->before.window = fmax(path->before.window, it->window), *it = path->before;
        path->kept = path->timed_out = 0;
    } else if (event->kind == ANABRANCH_IDLE) { /* RFC 5681, section 4.1 */
        path->last_ack = event->now;
        if (it->window > first) it->window = first, resume(it);
    }
    to->window = it->window, to->ssthresh = it->ssthresh;
    return 0;
}

static const struct anabranch_controller CUBIC = {ANABRANCH_ABI, 0, size, init, on_event, NULL};

const struct anabranch_controller *anabranch_find(const char *name) {
    return strcmp(name, "cubic") == 0 ? &CUBIC : NULL;
}
