// Sends packets at given times into the interface of 192.0.2.1, receives them in the network
// namespace `far`, and prints what became of each: `replay ARRIVALS`.
//
// Each line of the file is a packet, in order: time (s), flow, bytes with the Ethernet header, and
// ECT: 0, 1 (ECT(0)) or 2 (ECT(1)). Each line of the output is for one of them: when it was sent
// and when it arrived (ns since the start, 0 if it did not), and whether it was marked.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FLOWS = 8, CODEPOINTS = 3, HEADERS = 14 + 20 + 8, BUFFER_BYTES = 256 << 20 };

struct packet {
    int64_t due, sent, received;
    unsigned flow, bytes, codepoint;
    int marked;
};

static struct packet *packets;
static uint32_t count;
static int64_t start;

static int64_t nanoseconds(struct timespec time) {
    return time.tv_sec * 1000000000LL + time.tv_nsec - start;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return nanoseconds(time);
}

static void wait_until(int64_t due) {
    struct timespec time = {(start + due) / 1000000000, (start + due) % 1000000000};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL);
}

static void set(int socket, int level, int option, int value) {
    if (setsockopt(socket, level, option, &value, sizeof value))
        err(1, "option %d", option);
}

static void read_arrivals(const char *path) {
    FILE *file = fopen(path, "r");
    double seconds;
    struct packet it = {0};
    size_t room = 0;
    if (!file)
        err(1, "%s", path);
    while (fscanf(file, "%lf %u %u %u", &seconds, &it.flow, &it.bytes, &it.codepoint) == 4) {
        if (it.flow >= FLOWS || it.codepoint >= CODEPOINTS || it.bytes < HEADERS + sizeof count)
            errx(1, "%s: packet %u", path, count);
        it.due = seconds * 1e9;
        if (count == room)
            packets = realloc(packets, (room = 2 * room + 1024) * sizeof it);
        packets[count++] = it;
    }
    fclose(file);
}

static int open_far(const struct sockaddr_in *address) {
    int space = open("/run/netns/far", O_RDONLY), far;
    if (space < 0 || setns(space, CLONE_NEWNET))
        err(1, "namespace far");
    close(space);
    far = socket(AF_INET, SOCK_DGRAM, 0);
    set(far, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES);
    set(far, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    set(far, IPPROTO_IP, IP_RECVTOS, 1);
    if (bind(far, (const struct sockaddr *)address, sizeof *address))
        err(1, "bind");
    return far;
}

// A flow has the priority 10:FLOW+1, which FQ-CoDel with the handle 10: takes as the number of its
// queue: no two flows share one.
static int open_near(const struct sockaddr_in *address, unsigned flow, unsigned codepoint) {
    static const int ECN[CODEPOINTS] = {0, 2, 1};
    int near = socket(AF_INET, SOCK_DGRAM, 0);
    set(near, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES);
    set(near, IPPROTO_IP, IP_TOS, ECN[codepoint]);
    set(near, SOL_SOCKET, SO_PRIORITY, 0x10 << 16 | (flow + 1));
    if (connect(near, (const struct sockaddr *)address, sizeof *address))
        err(1, "connect");
    return near;
}

static void receive(int far) {
    uint32_t number;
    char control[256];
    struct iovec data = {&number, sizeof number};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control};
    for (;;) {
        message.msg_controllen = sizeof control;
        if (recvmsg(far, &message, MSG_DONTWAIT) < (ssize_t)sizeof number || number >= count)
            return;
        for (struct cmsghdr *it = CMSG_FIRSTHDR(&message); it; it = CMSG_NXTHDR(&message, it)) {
            if (it->cmsg_level == SOL_SOCKET && it->cmsg_type == SCM_TIMESTAMPNS)
                packets[number].received = nanoseconds(*(struct timespec *)CMSG_DATA(it));
            if (it->cmsg_level == IPPROTO_IP && it->cmsg_type == IP_TOS)
                packets[number].marked = (*CMSG_DATA(it) & 3) == 3;
        }
    }
}

int main(int arguments, char **argument) {
    static int near[FLOWS][CODEPOINTS];
    static char payload[65536];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct sched_param priority = {.sched_priority = 1};
    struct pollfd far = {.events = POLLIN};

    if (arguments != 2)
        errx(2, "usage: replay ARRIVALS");
    address.sin_addr.s_addr = inet_addr("192.0.2.2");
    read_arrivals(argument[1]);
    for (unsigned flow = 0; flow < FLOWS; flow++)
        for (unsigned codepoint = 0; codepoint < CODEPOINTS; codepoint++)
            near[flow][codepoint] = open_near(&address, flow, codepoint);
    far.fd = open_far(&address);
    if (sched_setscheduler(0, SCHED_FIFO, &priority))
        err(1, "SCHED_FIFO");
    start = now() + 100000000;

    for (uint32_t i = 0; i < count; i++) {
        struct packet *it = &packets[i];
        if (now() < it->due) {
            receive(far.fd);
            wait_until(it->due);
        }
        *(uint32_t *)payload = i;
        it->sent = now();
        // An error is that of a queue that drops the packet, which does not arrive.
        send(near[it->flow][it->codepoint], payload, it->bytes - HEADERS, 0);
    }
    do
        receive(far.fd);
    while (poll(&far, 1, 1000) > 0);
    for (uint32_t i = 0; i < count; i++)
        printf("%lld %lld %d\n", (long long)packets[i].sent, (long long)packets[i].received,
               packets[i].marked);
    return 0;
}
