// Emulator of links between routers and a server.
//
//     emulator SERVER ROUTER...
//
// Each argument is a process in the network namespace of that host. There the emulator creates the
// device tun0, with which it reads and writes packets. Link i is between router i and the server; a
// packet of the server goes over the link that is the third octet of its IPv4 destination. Links
// start with 100 Mbit/s, no delay and a queue of 100 kB, the same in both directions.
//
// A line on stdin sets a property of both directions of a link: `2 rate 12e6`. Properties are those
// of `set`. `stats` prints counters as JSON. Each line is answered with a line. The program ends at
// the end of stdin.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_LINKS = 8,
    MAX_PACKET = 65536,
    BATCH = 64,       // packets read from a device before the others have their turn
    NS_PER_MS = 1000000,
    TICK_NS = 100000, // while packets flow it runs once per tick: a wake-up per packet costs more
};
#define NEVER UINT64_MAX

struct packet {
    uint64_t due;   // when it arrives, ns
    uint64_t order; // decides between two that are due at once
    struct packet *next;
    size_t length;
    uint8_t bytes[];
};

struct heap {
    struct packet **packets;
    size_t count, space;
};

struct direction {
    double rate;         // bit/s
    double loss;         // probability
    double reordered;    // probability of a further delay, uniform from 0 to `late_ns`
    uint64_t delay_ns, extra_ns, late_ns;
    size_t queue;        // bytes that may wait, the packet in transmission included
    bool dead;           // every packet vanishes, those under way included

    struct packet *head, *tail;
    size_t waiting;      // bytes
    uint64_t head_done;  // when the head has been transmitted, ns
    struct heap under_way;
    int out;             // device that gets the packets

    uint64_t packets, bytes, full, lost, vanished, failed, latest_ns;
};

static struct direction up[MAX_LINKS], down[MAX_LINKS];
static int links;

static void fail(const char *what) {
    fprintf(stderr, "emulator: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// A random number in [0, 1): xorshift64*, with the same seed in each run.
static double uniform(void) {
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (double)((state * 0x2545f4914f6cdd1d) >> 11) * 0x1p-53;
}

static bool before(const struct packet *a, const struct packet *b) {
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void push(struct heap *heap, struct packet *packet) {
    if (heap->count == heap->space) {
        heap->space = heap->space ? 2 * heap->space : 64;
        heap->packets = realloc(heap->packets, heap->space * sizeof *heap->packets);
        if (!heap->packets)
            fail("memory");
    }
    size_t at = heap->count++;
    for (; at && before(packet, heap->packets[(at - 1) / 2]); at = (at - 1) / 2)
        heap->packets[at] = heap->packets[(at - 1) / 2];
    heap->packets[at] = packet;
}

static struct packet *pop(struct heap *heap) {
    struct packet *first = heap->packets[0], *last = heap->packets[--heap->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && before(heap->packets[child + 1], heap->packets[child]))
            child++;
        if (!before(heap->packets[child], last))
            break;
        heap->packets[at] = heap->packets[child];
        at = child;
    }
    heap->packets[at] = last;
    return first;
}

static uint64_t transmission_ns(const struct direction *link, const struct packet *packet) {
    return (uint64_t)((double)packet->length * 8e9 / link->rate);
}

// Move what has been transmitted by now from the queue to the packets under way. Each begins when
// the one before has ended, not when the emulator runs: lateness does not accumulate.
static void transmit(struct direction *link, uint64_t now) {
    static uint64_t order;
    while (link->head && link->head_done <= now) {
        struct packet *packet = link->head;
        link->head = packet->next;
        link->waiting -= packet->length;
        packet->order = order++;
        packet->due = link->head_done + link->delay_ns + link->extra_ns;
        if (link->reordered > 0 && uniform() < link->reordered)
            packet->due += (uint64_t)(uniform() * (double)link->late_ns);
        push(&link->under_way, packet);
        if (link->head)
            link->head_done += transmission_ns(link, link->head);
    }
}

static void deliver(struct direction *link, uint64_t now) {
    while (link->under_way.count && link->under_way.packets[0]->due <= now) {
        struct packet *packet = pop(&link->under_way);
        if (link->dead) {
            link->vanished++;
        } else if (write(link->out, packet->bytes, packet->length) < 0) {
            link->failed++;
        } else {
            link->packets++;
            link->bytes += packet->length;
            if (now - packet->due > link->latest_ns)
                link->latest_ns = now - packet->due;
        }
        free(packet);
    }
}

static void offer(struct direction *link, uint64_t now, const uint8_t *bytes, size_t length) {
    transmit(link, now);
    if (link->dead) {
        link->vanished++;
        return;
    }
    if (link->loss > 0 && uniform() < link->loss) {
        link->lost++;
        return;
    }
    if (link->waiting + length > link->queue) {
        link->full++;
        return;
    }
    struct packet *packet = malloc(sizeof *packet + length);
    if (!packet)
        fail("memory");
    packet->next = NULL;
    packet->length = length;
    memcpy(packet->bytes, bytes, length);
    link->waiting += length;
    if (link->head) {
        link->tail = link->tail->next = packet;
    } else {
        link->head = link->tail = packet;
        link->head_done = now + transmission_ns(link, packet);
    }
}

static uint64_t next_event(const struct direction *link) {
    uint64_t next = link->head ? link->head_done : NEVER;
    if (link->under_way.count && link->under_way.packets[0]->due < next)
        next = link->under_way.packets[0]->due;
    return next;
}

// Read a device and offer its packets to their links; `from` is its link, or -1 for the server.
static void receive(int device, int from) {
    static uint8_t bytes[MAX_PACKET];
    for (int count = 0; count < BATCH; count++) {
        ssize_t length = read(device, bytes, sizeof bytes);
        if (length < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (length < 0)
            fail("read");
        if (length < 20 || bytes[0] >> 4 != 4)
            continue; // IPv6, which the hosts send by themselves
        int to = from < 0 ? bytes[18] - 1 : from;
        if (to >= 0 && to < links)
            offer(from < 0 ? &down[to] : &up[to], now_ns(), bytes, (size_t)length);
    }
}

static bool set(struct direction *link, const char *name, double value) {
    uint64_t now = now_ns();
    transmit(link, now);
    if (!strcmp(name, "rate") && value > 0) {
        double left_ns = link->head ? (double)(link->head_done - now) : 0;
        link->head_done = now + (uint64_t)(left_ns * link->rate / value);
        link->rate = value;
    } else if (!strcmp(name, "delay_ms"))
        link->delay_ns = (uint64_t)(value * NS_PER_MS);
    else if (!strcmp(name, "extra_ms"))
        link->extra_ns = (uint64_t)(value * NS_PER_MS);
    else if (!strcmp(name, "late_ms"))
        link->late_ns = (uint64_t)(value * NS_PER_MS);
    else if (!strcmp(name, "reordered"))
        link->reordered = value;
    else if (!strcmp(name, "loss"))
        link->loss = value;
    else if (!strcmp(name, "queue"))
        link->queue = (size_t)value;
    else if (!strcmp(name, "dead"))
        link->dead = value != 0;
    else
        return false;
    return true;
}

static void print_stats(bool realtime) {
    printf("{\"realtime\": %s, \"directions\": [", realtime ? "true" : "false");
    for (int number = 0; number < 2 * links; number++) {
        const struct direction *link = number % 2 ? &down[number / 2] : &up[number / 2];
        printf("%s{\"link\": %d, \"direction\": \"%s\", \"packets\": %lu, \"bytes\": %lu, "
               "\"full\": %lu, \"lost\": %lu, \"vanished\": %lu, \"failed\": %lu, "
               "\"latest_ms\": %.3f}",
               number ? ", " : "", number / 2 + 1, number % 2 ? "down" : "up", link->packets,
               link->bytes, link->full, link->lost, link->vanished, link->failed,
               (double)link->latest_ns / NS_PER_MS);
    }
    puts("]}");
}

static void command(char *line, bool realtime) {
    char name[16];
    double value;
    int link;
    if (!strcmp(line, "stats"))
        print_stats(realtime);
    else if (sscanf(line, "%d %15s %lf", &link, name, &value) != 3)
        puts("expected: LINK NAME VALUE");
    else if (link < 1 || link > links)
        puts("no such link");
    else if (value >= 0 && set(&up[link - 1], name, value) && set(&down[link - 1], name, value))
        puts("ok");
    else
        puts("no such property");
}

// Read commands; false at the end of stdin.
static bool commands(bool realtime) {
    static char buffer[4096];
    static size_t filled;
    ssize_t length = read(0, buffer + filled, sizeof buffer - 1 - filled);
    if (length <= 0)
        return false;
    filled += (size_t)length;
    buffer[filled] = 0;
    char *line = buffer, *end;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        command(line, realtime);
        line = end + 1;
    }
    filled = strlen(line);
    memmove(buffer, line, filled);
    return true;
}

// A new device tun0 in the network namespace of a process.
static int open_device(const char *process) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", process);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET))
        fail(path);
    close(space);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq request = {.ifr_name = "tun0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (device < 0 || ioctl(device, TUNSETIFF, &request))
        fail("/dev/net/tun");
    return device;
}

int main(int argc, char **argv) {
    links = argc - 2;
    if (links < 1 || links > MAX_LINKS) {
        fprintf(stderr, "usage: emulator SERVER ROUTER... (at most %d)\n", MAX_LINKS);
        return 2;
    }
    // Descriptors of stdin, the server's device, and those of the routers.
    struct pollfd ready[MAX_LINKS + 2] = {{.fd = 0, .events = POLLIN}};
    for (int number = 0; number <= links; number++)
        ready[number + 1] = (struct pollfd){open_device(argv[number + 1]), POLLIN, 0};
    for (int link = 0; link < links; link++) {
        up[link] = (struct direction){.rate = 100e6, .queue = 100000, .out = ready[1].fd};
        down[link] = up[link];
        down[link].out = ready[link + 2].fd;
    }
    struct sched_param priority = {.sched_priority = 1};
    bool realtime = !sched_setscheduler(0, SCHED_RR, &priority);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");

    bool busy = false; // packets arrived
    for (;;) {
        uint64_t now = now_ns(), next = NEVER;
        for (int number = 0; number < 2 * links; number++) {
            struct direction *link = number % 2 ? &down[number / 2] : &up[number / 2];
            transmit(link, now);
            deliver(link, now);
            uint64_t event = next_event(link);
            next = event < next ? event : next;
        }
        now = now_ns();
        uint64_t wait = next == NEVER ? 1000000000 : next > now ? next - now : 0;
        if (busy || wait < TICK_NS) {
            nanosleep(&(struct timespec){0, TICK_NS}, NULL);
            wait = 0;
        }
        struct timespec timeout = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
        if (ppoll(ready, (nfds_t)links + 2, &timeout, NULL) < 0 && errno != EINTR)
            fail("ppoll");
        busy = false;
        if (ready[0].revents && !commands(realtime))
            return 0;
        for (int number = 0; number <= links; number++)
            if (ready[number + 1].revents) {
                receive(ready[number + 1].fd, number - 1);
                busy = true;
            }
    }
}
