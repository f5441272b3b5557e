"""Processor-sharing queues and the adjustment of weights of the I-TCP paper."""
