// The scenarios of dumbbell.toml and two_links.toml in htsim; htsim.rs builds and starts this.
// Arguments: the scenario and the size of its queues in packets. The last line has the processor
// time of the run, ns, and the data packets that reached their sinks; htsim itself prints timeouts
// before.
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <vector>

#include "eventlist.h"
#include "mtcp.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

const int PACKET_BYTES = 1500;
const int USERS = 10;
const double DURATION_S = 100;

// A link of 100 Mbps with a drop-tail queue; acknowledgements return over a delay alone.
struct Link {
    Queue queue;
    Pipe there, back;
    Link(EventList& events, double delay_ms, int packets)
        : queue(speedFromMbps(100.0), mem_b(packets) * PACKET_BYTES, events, NULL),
          there(timeFromMs(delay_ms), events),
          back(timeFromMs(delay_ms), events) {}
};

// Starts a flow over the link; it becomes a subflow of `source` unless that is NULL.
TcpSink* start_flow(EventList& events, Link& link, TcpRtxTimerScanner& timers, double start_s,
                    MultipathTcpSrc* source, MultipathTcpSink* end) {
    TcpSrc* sender = new TcpSrc(NULL, NULL, events);
    TcpSink* sink = new TcpSink();
    timers.registerTcp(*sender);
    if (source != NULL) {
        source->addSubflow(sender);
        end->addSubflow(sink);
    }
    route_t* there = new route_t();
    there->push_back(&link.queue);
    there->push_back(&link.there);
    there->push_back(sink);
    route_t* back = new route_t();
    back->push_back(&link.back);
    back->push_back(sender);
    sender->connect(*there, *back, *sink, timeFromSec(start_s));
    return sink;
}

double processor_ns() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int arguments, char** argument) {
    if (arguments != 3) {
        std::cerr << "usage: htsim dumbbell|two_links QUEUE_PACKETS\n";
        return 2;
    }
    const bool two_links = std::strcmp(argument[1], "two_links") == 0;
    const int queue_packets = std::atoi(argument[2]);
    const double start = processor_ns();
    srand(1);
    Packet::set_packet_size(PACKET_BYTES);
    EventList events;
    events.setEndtime(timeFromSec(DURATION_S));
    TcpRtxTimerScanner timers(timeFromMs(10.0), events);
    std::vector<TcpSink*> sinks;
    Link first(events, two_links ? 75 : 10, queue_packets);
    Link second(events, 75, queue_packets);
    for (int i = 0; i < USERS; i++) {
        const double start_s = double(i) / USERS;
        if (two_links) {
            // COUPLED_INC is LIA: the increase a/total window, at most that of TCP.
            MultipathTcpSrc* source = new MultipathTcpSrc(COUPLED_INC, events, NULL);
            MultipathTcpSink* end = new MultipathTcpSink(events);
            source->connect(end);
            sinks.push_back(start_flow(events, first, timers, start_s, source, end));
            sinks.push_back(start_flow(events, second, timers, start_s, source, end));
            sinks.push_back(start_flow(events, second, timers, start_s, NULL, NULL));
        } else {
            sinks.push_back(start_flow(events, first, timers, start_s, NULL, NULL));
        }
    }
    while (events.doNextEvent()) {
    }
    double packets = 0;
    for (TcpSink* sink : sinks) packets += double(sink->_packets) / PACKET_BYTES;
    std::cout << processor_ns() - start << " " << packets << std::endl;
}
