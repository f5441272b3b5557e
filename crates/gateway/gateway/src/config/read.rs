//! Reading of a configuration file: every fault has its file, line and key.

use std::path::Path;

use anabranch_scenario::{Document, Error, Fault, read_file};
use serde::de::DeserializeOwned;

use super::{Far, Near, check, warnings};
use crate::keys::{KeyPair, PublicKey};
use crate::tls::Identity;

/// A valid configuration, with the keys that were read along with it.
#[derive(Clone, Debug)]
pub struct Valid<Config> {
    /// The file's content; paths in it are relative to the working directory.
    pub config: Config,
    /// The own key.
    pub key: KeyPair,
    /// The keys of the accepted peers.
    pub peers: Vec<PublicKey>,
    /// Warnings about values that are legal and probably not meant, one line each.
    pub warnings: Vec<String>,
}

impl<Config> Valid<Config> {
    /// Own and accepted keys, for handshakes.
    pub fn identity(&self) -> std::sync::Arc<Identity> {
        Identity::new(&self.key, self.peers.clone())
    }
}

/// The configuration of either gateway.
#[derive(Clone, Debug)]
pub enum Either {
    /// `near`'s: the file has the key `far`.
    Near(Box<Valid<Near>>),
    /// `far`'s: the file has the key `listen`.
    Far(Box<Valid<Far>>),
}

impl Either {
    /// Warnings about values that are legal and probably not meant.
    pub fn warnings(&self) -> &[String] {
        match self {
            Either::Near(near) => &near.warnings,
            Either::Far(far) => &far.warnings,
        }
    }
}

/// A configuration that can be checked: `near`'s or `far`'s.
pub trait Config: DeserializeOwned {
    /// Program that reads it: `near` or `far`.
    const ROLE: &'static str;
    /// Tunnel.
    fn tunnel(&mut self) -> &mut super::Tunnel;
    /// Status, metrics and drain.
    fn operation(&self) -> &super::Operation;
    /// All faults.
    fn faults(&self) -> Vec<Fault>;
    /// Warnings about values that are legal and probably not meant.
    fn warnings(&self) -> Vec<Fault>;
}

impl Config for Near {
    const ROLE: &'static str = "near";
    fn tunnel(&mut self) -> &mut super::Tunnel {
        &mut self.tunnel
    }
    fn operation(&self) -> &super::Operation {
        &self.operation
    }
    fn faults(&self) -> Vec<Fault> {
        check::near(self)
    }
    fn warnings(&self) -> Vec<Fault> {
        warnings::near(self)
    }
}

impl Config for Far {
    const ROLE: &'static str = "far";
    fn tunnel(&mut self) -> &mut super::Tunnel {
        &mut self.tunnel
    }
    fn operation(&self) -> &super::Operation {
        &self.operation
    }
    fn faults(&self) -> Vec<Fault> {
        check::far(self)
    }
    fn warnings(&self) -> Vec<Fault> {
        warnings::far(self)
    }
}

/// Reads the configuration of one gateway. The key file's path is relative to the file.
///
/// # Errors
/// Every fault that was found, at least one: `near.toml:12: paths[0].weight: ...`.
pub fn read<C: Config>(path: &Path) -> Result<Valid<C>, Vec<Error>> {
    of_text(path, &text(path).map_err(|error| vec![error])?)
}

/// Reads the configuration of one gateway from the text of this file, written or not.
///
/// # Errors
/// As for [`read`].
pub fn of_text<C: Config>(path: &Path, text: &str) -> Result<Valid<C>, Vec<Error>> {
    let file = path.display().to_string();
    let document = parse(&file, text).map_err(|error| vec![error])?;
    if role(&document).is_some_and(|role| role != C::ROLE) {
        let role = role(&document).unwrap_or_default();
        let message =
            format!("this is a configuration of {role}: start it with anabranch-gateway {role}");
        return Err(vec![Error::of_file(&file, message)]);
    }
    valid(path, &document)
}

/// Reads the configuration of either gateway.
pub fn either(path: &Path) -> Result<Either, Vec<Error>> {
    let file = path.display().to_string();
    let text = text(path).map_err(|error| vec![error])?;
    let document = parse(&file, &text).map_err(|error| vec![error])?;
    match role(&document) {
        Some("near") => Ok(Either::Near(Box::new(valid(path, &document)?))),
        Some(_) => Ok(Either::Far(Box::new(valid(path, &document)?))),
        None => Err(vec![Error::of_file(
            &file,
            "expected the key far (the address of far: a configuration of near) or listen (where \
             far accepts tunnels)",
        )]),
    }
}

fn valid<C: Config>(path: &Path, document: &Document<'_>) -> Result<Valid<C>, Vec<Error>> {
    let located = |fault| document.error(fault);
    let mut config: C = document.read().map_err(|fault| vec![located(fault)])?;
    let tunnel = config.tunnel();
    if let Some(folder) = path.parent() {
        tunnel.key = folder.join(&tunnel.key);
    }
    let keys = check::keys(tunnel);
    let mut faults = config.faults();
    match keys {
        Ok((key, peers)) if faults.is_empty() => {
            let found = config.warnings().into_iter().map(located);
            let mut warnings = warnings::files(path, &config.tunnel().key);
            warnings.extend(found.map(|warning| warning.to_string()));
            Ok(Valid {
                warnings,
                config,
                key,
                peers,
            })
        }
        keys => {
            faults.extend(keys.err().into_iter().flatten());
            let mut errors: Vec<Error> = faults.into_iter().map(located).collect();
            errors.sort_by_key(|error| error.line);
            Err(errors)
        }
    }
}

/// Gateway that the file is for, by the key that only one of them has and needs.
fn role(document: &Document<'_>) -> Option<&'static str> {
    match (document.has("far"), document.has("listen")) {
        (true, false) => Some("near"),
        (false, true) => Some("far"),
        _ => None,
    }
}

fn parse<'t>(file: &'t str, text: &'t str) -> Result<Document<'t>, Error> {
    let document = Document::parse(file, text, &[])?;
    if document.is_empty() {
        let message = "expected a configuration, got an empty file: see docs/reference/gateway.md";
        return Err(Error::of_file(file, message));
    }
    Ok(document)
}

fn text(path: &Path) -> Result<String, Error> {
    let fail = |message| Error::of_file(&path.display().to_string(), message);
    // A FIFO would be waited for, now or at a reload.
    if path
        .metadata()
        .is_ok_and(|found| !found.is_file() && !found.is_dir())
    {
        return Err(fail(
            "expected a regular file, which a reload can read again".to_owned(),
        ));
    }
    let text = read_file(path).map_err(fail)?;
    String::from_utf8(text).map_err(|_| fail("expected UTF-8".to_owned()))
}
