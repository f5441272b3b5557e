/* Congestion controllers across languages, version 1: the events of RFC 9002, appendix B, and the
 * answers to them. A program exports `anabranch_find` and is run by `-a ./libmine.so:name`; or it
 * links libanabranch.a and calls a rule of Anabranch, which it has of `anabranch_rule`.
 *
 * Windows and volumes are in full packets: a packet of half the size counts 0.5, and a sender that
 * counts bytes multiplies by its datagram size. Times are in s, of any origin. Calls for one
 * connection never overlap, but may come from different threads; connections are independent. */
#ifndef ANABRANCH_H
#define ANABRANCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ANABRANCH_ABI 1u

/* A flag of a controller: it is told of each packet and each sample of the delivery rate (SENT,
 * SAMPLE, APP_LIMITED), and the host paces at its rate. Without it these events do not come. */
#define ANABRANCH_PER_PACKET 1u

/* The events of a path. */
enum anabranch_kind {
    ANABRANCH_OPENED = 0,     /* it is new, or takes the place of another: paths open in order */
    ANABRANCH_ACKED = 1,      /* `packets` arrived; the window may grow if `window_limited` */
    ANABRANCH_LOST = 2,       /* `packets` are declared lost; for counting */
    ANABRANCH_CONGESTION = 3, /* the first loss of a round trip: the window falls */
    ANABRANCH_RECOVERED = 4,  /* all that was outstanding at that loss or mark is acknowledged */
    ANABRANCH_TIMEOUT = 5,    /* persistent congestion, or TCP's retransmission timer expired */
    ANABRANCH_ECN = 6,        /* the first mark of a round trip */
    ANABRANCH_KEEP = 7,       /* the CONGESTION that follows may prove SPURIOUS */
    ANABRANCH_SPURIOUS = 8,   /* nothing was lost at the last TIMEOUT, or the loss after KEEP */
    ANABRANCH_IDLE = 9,       /* it sends again after more than a timeout without sending */
    ANABRANCH_THRESHOLD = 10, /* slow start shall end at `packets`, from now on */
    ANABRANCH_SENT = 11,      /* a packet of size `packets` is about to be sent */
    ANABRANCH_SAMPLE = 12,    /* an acknowledgement is processed: a sample of the delivery rate */
    ANABRANCH_APP_LIMITED = 13 /* there is room for more than `in_flight`, and no data */
};

struct anabranch_event {
    uint32_t kind;           /* enum anabranch_kind; one that is not known shall be ignored */
    uint32_t path;           /* its index */
    uint32_t window_limited; /* ACKED: 1 if the window was what limited the sender, else 0 */
    uint32_t app_limited;    /* SAMPLE: 1 if the application limited the rate, else 0 */
    double now;              /* the time, or that of the last event that had one */
    double packets;          /* as at `kind` */
    double rtt;              /* ACKED, SAMPLE: the RTT sample; 0 without one */
    double sent_at;          /* ACKED: when the packet was sent that caused it */
    double delivered;        /* SAMPLE: delivered since that packet was sent */
    double delivery_rate;    /* SAMPLE: packets/s; 0 without a reliable sample */
    double in_flight;        /* SENT (without this packet), SAMPLE, APP_LIMITED */
};

/* The answers for a path. They hold until they are changed; at OPENED the host has set the initial
 * window and the other two to infinity. */
struct anabranch_path {
    double window;      /* at least 1 */
    double ssthresh;    /* below it the path is in slow start */
    double pacing_rate; /* packets/s, above 0; infinite: not paced */
};

struct anabranch_start {
    uint32_t abi;             /* ANABRANCH_ABI of the host */
    uint32_t most_paths;      /* the connection never has more */
    double initial_window;    /* of every path */
    double smallest_ssthresh; /* that the host asks for */
};

struct anabranch_controller {
    uint32_t abi;   /* ANABRANCH_ABI of the controller */
    uint32_t flags; /* 0 or ANABRANCH_PER_PACKET */
    /* The bytes of the state of a connection. */
    size_t (*size)(const struct anabranch_controller *self, uint32_t most_paths);
    /* Makes the state in these bytes, zeroed, aligned to 16. Returns 0, or the host stops. */
    int (*init)(const struct anabranch_controller *self, void *state,
                const struct anabranch_start *start);
    /* An event of one path; the answers of all `count` open paths may change. Returns 0, or else
     * the host stops. */
    int (*on_event)(void *state, const struct anabranch_event *event, struct anabranch_path *paths,
                    uint32_t count);
    /* Called once, before the host frees the state; NULL if there is nothing to do. */
    void (*release)(void *state);
};

/* Exported by a library of controllers: the one of this name, which lives as long as the library;
 * NULL if there is none. */
const struct anabranch_controller *anabranch_find(const char *name);

/* In libanabranch.a: a rule such as "lia" or "balia:cap=inf", which lives as long as the program;
 * NULL if there is none, and for rules by delivery rates (bbr, bbr3) and by shares of marks
 * (dctcp), which version 1 cannot run. */
const struct anabranch_controller *anabranch_rule(const char *rule);

#ifdef __cplusplus
}
#endif

#endif
