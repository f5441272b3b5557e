# Senders at both ends of a link, the peer of what two_way.rs simulates. Arguments:
# the numbers of senders there and back, the rates there and back in Mbps, the one-way delay in ms,
# the queues there and back in packets, the warm-up and the duration in s, a seed, and the agent,
# Sack1 or Linux. Prints the packets acknowledged after the warm-up, there and back.
lassign $argv there back rate_there rate_back delay queue_there queue_back warmup duration seed agent

set ns [new Simulator]
ns-random $seed
set start [new RandomVariable/Uniform]
$start set max_ 1.0

set a [$ns node]
set b [$ns node]
$ns simplex-link $a $b ${rate_there}Mb ${delay}ms DropTail
$ns simplex-link $b $a ${rate_back}Mb ${delay}ms DropTail
$ns queue-limit $a $b $queue_there
$ns queue-limit $b $a $queue_back

# 1460 and a header of 40 are 1500 bytes on the wire; an ACK has 40.
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 1000000
Agent/TCP set minrto_ 1.0

proc senders {count from to} {
    global ns start agent
    set senders {}
    for {set i 0} {$i < $count} {incr i} {
        set sender [new Agent/TCP/$agent]
        set sink [new Agent/TCPSink/Sack1]
        $ns attach-agent $from $sender
        $ns attach-agent $to $sink
        $ns connect $sender $sink
        if {$agent eq "Linux"} {
            $sink set ts_echo_rfc1323_ true
            $ns at 0 "$sender select_ca reno"
        }
        set ftp [new Application/FTP]
        $ftp attach-agent $sender
        $ns at [$start value] "$ftp start"
        lappend senders $sender
    }
    return $senders
}
set groups [list [senders $there $a $b] [senders $back $b $a]]

proc counters {} {
    global groups
    lmap senders $groups {
        set acknowledged 0
        foreach sender $senders {
            incr acknowledged [expr [$sender set ack_] + 1]
        }
        set acknowledged
    }
}

proc warm {} {
    global before
    set before [counters]
}

proc finish {} {
    global before
    puts [lmap now [counters] then $before {expr $now - $then}]
    exit 0
}
$ns at $warmup warm
$ns at $duration finish
$ns run
