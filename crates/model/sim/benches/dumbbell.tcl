# The scenario of dumbbell.toml in ns-2. Prints the data packets that arrived.
set ns [new Simulator]
set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b 100Mb 10ms DropTail
$ns queue-limit $a $b 100
for {set i 0} {$i < 10} {incr i} {
    set sender($i) [new Agent/TCP/Sack1]
    set receiver($i) [new Agent/TCPSink/Sack1]
    $sender($i) set packetSize_ 1460
    $sender($i) set window_ 100000
    $ns attach-agent $a $sender($i)
    $ns attach-agent $b $receiver($i)
    $ns connect $sender($i) $receiver($i)
    set ftp($i) [new Application/FTP]
    $ftp($i) attach-agent $sender($i)
    $ns at [expr 0.1 * $i] "$ftp($i) start"
}
proc finish {} {
    global sender
    set arrived 0
    for {set i 0} {$i < 10} {incr i} { incr arrived [$sender($i) set ack_] }
    puts $arrived
    exit 0
}
$ns at 100 finish
$ns run
