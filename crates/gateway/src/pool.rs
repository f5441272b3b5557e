//! I-TCP: the weight of a tunnel follows the gateway's buffer.
