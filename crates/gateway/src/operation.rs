//! What an operator sees: readiness, reload, drain, logs, metrics, status.
