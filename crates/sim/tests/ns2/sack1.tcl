# Ten Sack1 senders over one link, the peer of what tests/ns2.rs simulates. Arguments: the link's
# rate in Mbps, its one-way delay in ms, its queue in packets, the probability of a random loss, the
# duration in s and a seed. Prints the packets acknowledged and the packets dropped at the link.
lassign $argv rate delay queue loss duration seed

set ns [new Simulator]
ns-random $seed
set start [new RandomVariable/Uniform]
$start set max_ 1.0

set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b ${rate}Mb ${delay}ms DropTail
$ns queue-limit $a $b $queue
set monitor [$ns monitor-queue $a $b ""]

set losses [new ErrorModel]
$losses unit pkt
$losses set rate_ $loss
$losses ranvar [new RandomVariable/Uniform]
$losses drop-target [new Agent/Null]
$ns lossmodel $losses $a $b

# 1460 and a header of 40 are 1500 bytes on the wire.
# is as long as half a round trip, so ours is 1 ms.
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 1000000
Agent/TCP set minrto_ 0.2

set senders {}
for {set i 0} {$i < 10} {incr i} {
    set sender [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1]
    $ns attach-agent $a $sender
    $ns attach-agent $b $sink
    $ns connect $sender $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $sender
    $ns at [$start value] "$ftp start"
    lappend senders $sender
}

proc finish {} {
    global senders monitor
    set acknowledged 0
    foreach sender $senders {
        incr acknowledged [expr [$sender set ack_] + 1]
    }
    puts "$acknowledged [$monitor set pdrops_]"
    exit 0
}
$ns at $duration finish
$ns run
