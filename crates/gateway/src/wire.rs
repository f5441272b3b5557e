//! What the gateways say to each other: the head of a stream, and datagrams of UDP associations.
