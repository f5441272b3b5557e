//! `near`: accepts local traffic and carries it to `far`.
