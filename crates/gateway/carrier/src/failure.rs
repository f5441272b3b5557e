//! Causes of a failure to establish a tunnel, in plain words, with the remedy. They name keys of
//! the gateway's files, which are the fields of [`Near`](crate::Near) and [`Far`](crate::Far).
//!
//! A handshake tells the peer no more than TLS does: the words are for the own log.

use std::net::SocketAddr;
use std::time::Duration;
use std::{error, fmt, io};

use anyhow::anyhow;
use rustls::{AlertDescription, CertificateError, Error, OtherError};

use crate::config::{Path, Remote};
use crate::keys::PublicKey;

/// End that logs the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Near,
    Far,
}

/// Reason with which `far` closes the connection of a `near` whose proved key it does not accept.
pub(crate) const KEY_REFUSED: &str = "far does not accept near's key: add it to tunnel.peers of \
    far and send far SIGHUP; far's log shows the key";

/// Cause at `far`: `near` does not accept its key.
const OWN_KEY_REFUSED: &str = "near does not accept far's key: add it to tunnel.peers of near; \
    near's log shows the key";

/// Cause: another service answers, or none that this end understands.
const NO_FAR: &str = "another service than far answers there: compare the port of `far` with \
    `listen` of far";
const NO_NEAR: &str = "the client is no near: it does not speak this protocol";

/// Cause: `far` accepts QUIC only.
pub(crate) const NO_TCP: &str = "far answers over UDP and not over TCP: its tunnel.carrier is \
    quic, and mptcp here; set the same in both files";

/// Error: a key that is not pinned. The library shows this text to the peer, the key to nobody.
pub(crate) struct UnknownKey(pub PublicKey);

impl fmt::Debug for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown key")
    }
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl error::Error for UnknownKey {}

/// Cause of an error of TLS at this end; `None` for an error in its own configuration.
pub(crate) fn of_tls(error: &Error, end: End) -> Option<String> {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
            let unknown = cause.downcast_ref::<UnknownKey>()?;
            Some(of_key(&unknown.0, end))
        }
        Error::AlertReceived(alert) => Some(of_alert((*alert).into(), end)),
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::NoApplicationProtocol
        | Error::PeerIncompatible(_)
        | Error::PeerMisbehaved(_) => Some(of_stranger(end).to_owned()),
        _ => None,
    }
}

fn of_key(key: &PublicKey, end: End) -> String {
    match end {
        End::Near => format!(
            "far has the key {key}, which is not in tunnel.peers of near: add it, if keygen has \
             printed it on far's host; otherwise `far` leads to somebody else"
        ),
        End::Far => format!(
            "the client has the key {key}, which is not in tunnel.peers of far: add it and send \
             far SIGHUP, if keygen has printed it on near's host"
        ),
    }
}

/// Cause of an alert with which the peer has ended the handshake.
pub(crate) fn of_alert(alert: u8, end: End) -> String {
    let words = match (is_of_key(alert.into()), end) {
        (true, End::Near) => KEY_REFUSED,
        (true, End::Far) => OWN_KEY_REFUSED,
        (false, end) => of_stranger(end),
    };
    words.to_owned()
}

fn is_of_key(alert: AlertDescription) -> bool {
    use AlertDescription::{AccessDenied, BadCertificate, CertificateUnknown};
    [AccessDenied, BadCertificate, CertificateUnknown].contains(&alert)
}

/// Whether the peer has refused the own key, which in TLS 1.3 `near` finds after its handshake.
pub(crate) fn refuses_key(error: &io::Error) -> bool {
    matches!(in_tls(error), Some(Error::AlertReceived(alert)) if is_of_key(*alert))
}

fn in_tls(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Cause: the peer speaks another protocol.
pub(crate) fn of_stranger(end: End) -> &'static str {
    match end {
        End::Near => NO_FAR,
        End::Far => NO_NEAR,
    }
}

/// Cause of a failed handshake over TCP.
pub(crate) fn of_handshake(error: &io::Error, end: End) -> String {
    let words = in_tls(error).and_then(|inner| of_tls(inner, end));
    words.unwrap_or_else(|| match end {
        End::Near => format!("the handshake ends ({error}): {NO_FAR}"),
        End::Far => format!("the client ends the handshake ({error})"),
    })
}

/// Error: nothing listens at this address over TCP.
#[derive(Debug)]
pub(crate) struct Refused(SocketAddr);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nothing listens at {} over TCP: start far, or compare",
            self.0
        )?;
        f.write_str(" the port of `far` with `listen` of far")
    }
}

impl error::Error for Refused {}

/// Error of a TCP connection of a path to this address.
pub(crate) fn of_connect(error: &io::Error, path: &Path, far: SocketAddr) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Refused(far).into(),
        _ => anyhow!(of_path(error, path, far)),
    }
}

/// Cause: nothing has returned from this address.
pub(crate) fn of_silence(protocol: &str, far: SocketAddr, patience: Duration) -> String {
    let port = far.port();
    format!(
        "no answer from {far} over {protocol} in {patience:?}: far does not run there, or a \
         firewall drops {protocol} to port {port}"
    )
}

/// Cause: a packet of a path to this address was not sent.
pub(crate) fn of_path(error: &io::Error, path: &Path, far: SocketAddr) -> String {
    let interface = path.interface.as_deref().unwrap_or_default();
    match error.raw_os_error() {
        Some(libc::ENODEV) => format!("this host has no interface {interface}"),
        Some(libc::EADDRNOTAVAIL) => match path.address {
            Some(address) => format!("this host has no address {address}"),
            None => format!("interface {interface} has no address of far's family"),
        },
        // Linux says so where the neighbour does not answer ARP, and of an ICMP error.
        Some(libc::EHOSTUNREACH) => format!(
            "no answer from {far}: the next router does not answer, or has no route to {}",
            far.ip()
        ),
        Some(libc::ENETUNREACH | libc::ENETDOWN) => {
            format!(
                "no route to {} ({}): add one for this path",
                far.ip(),
                error.kind()
            )
        }
        Some(libc::EMSGSIZE) => {
            let headers = if far.is_ipv4() { 28 } else { 48 };
            let least = 1200 + headers;
            format!("its MTU is too small: QUIC takes packets of {least} bytes (RFC 9000, 14)")
        }
        _ => format!("nothing can be sent over it: {error}"),
    }
}

/// Cause: nothing returns over a path from this address, although packets are sent.
pub(crate) fn of_silent_path(protocol: &str, path: &Path, far: SocketAddr) -> String {
    let (port, ip) = (far.port(), if far.is_ipv4() { 28 } else { 48 });
    let size = match protocol {
        "UDP" => format!(", or packets of {} bytes do not pass", 1200 + ip),
        _ => String::new(),
    };
    let route = match (path.address, &path.interface) {
        (Some(address), None) => format!(
            "packets from {address} leave by another link (ip route get {} from {address}), ",
            far.ip()
        ),
        _ => String::new(),
    };
    format!(
        "no answer from {far}: {route}a portal or firewall drops {protocol} to port {port}{size}"
    )
}

/// One line for the failures of all paths; paths with the same cause are named together.
pub(crate) fn line(far: &Remote, failures: &[(&str, String)]) -> String {
    let mut causes: Vec<(Vec<&str>, &str)> = Vec::new();
    for (path, cause) in failures {
        match causes.iter_mut().find(|(_, known)| known == cause) {
            Some((paths, _)) if paths.contains(path) => {}
            Some((paths, _)) => paths.push(path),
            None => causes.push((vec![path], cause)),
        }
    }
    let causes = causes.iter().map(|(paths, cause)| match causes.len() {
        1 => (*cause).to_owned(),
        _ => format!("{}: {cause}", paths.join(", ")),
    });
    let causes: Vec<_> = causes.collect();
    match causes.is_empty() {
        true => format!("far = {far}: no path may be used"),
        false => format!("far = {far}: {}", causes.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_paths_share_is_named_once() {
        let far = Remote {
            name: "far.test:1".into(),
            addresses: Vec::new(),
        };
        let line = |failures: &[(&'static str, &str)]| {
            let owned = failures
                .iter()
                .map(|(path, cause)| (*path, (*cause).to_owned()));
            line(&far, &owned.collect::<Vec<_>>())
        };
        assert_eq!(line(&[("a", "x"), ("b", "x")]), "far = far.test:1: x");
        let mixed = line(&[("a", "x"), ("b", "y"), ("c", "x"), ("a", "x")]);
        assert_eq!(mixed, "far = far.test:1: a, c: x; b: y");
        assert_eq!(line(&[]), "far = far.test:1: no path may be used");
    }
}
