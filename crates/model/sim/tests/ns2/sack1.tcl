# Sack1 senders over one link, the peer of what tests/ns2.rs simulates. Arguments: the number of
# senders, the link's rate in Mbps, its one-way delay in ms, its queue in packets, the probability of
# a random loss, the warm-up and the duration in s, and a seed. Prints, of the time after the
# warm-up, the packets acknowledged, the packets dropped at the link, the packets sent again and the
# timeouts.
lassign $argv flows rate delay queue loss warmup duration seed

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
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 1000000
Agent/TCP set minrto_ 0.2

set senders {}
for {set i 0} {$i < $flows} {incr i} {
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

proc counters {} {
    global senders monitor
    set acknowledged 0
    set again 0
    set timeouts 0
    foreach sender $senders {
        incr acknowledged [expr [$sender set ack_] + 1]
        incr again [$sender set nrexmitpack_]
        incr timeouts [$sender set nrexmit_]
    }
    list $acknowledged [$monitor set pdrops_] $again $timeouts
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
