//! The test cases of draft-ietf-ccwg-bbr-06, appendix A, on one BBRv3 connection over one
//! bottleneck whose rate, buffer, losses and delays a test changes when the connection is in the
//! state that the case names. A test has the case's number. All 22 cases are here.
//!
//! Where the draft's text does not lead to what it describes, the test says so:
//!
//! - A.4: with a rate 10 % lower Drain, which sends at half the rate, still ends by what is in
//!   flight. It ends by time where the rate falls to 40 %.
//! - A.6: `inflight_longterm` "is updated appropriately, regardless of the application-limited
//!   state", but `HandleInflightTooHigh` (section 5.5.10.2) updates it only where the lost packet
//!   is not application-limited. The test is of the pseudocode.
//! - A.18, A.19: the connection returns to PROBE_UP by way of PROBE_REFILL (section 5.5.11.2).

mod bandwidth;
mod bottleneck;
mod probe_bw;
mod probe_rtt;
mod spurious;
mod startup;
