/* Lists the TCP sockets of a network namespace, for `anabranch-kernel status`. */
#include "subflow.h"

char _license[] SEC("license") = "Dual MIT/GPL";
