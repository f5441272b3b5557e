//! `far`: accepts tunnels and connects out for their streams.
