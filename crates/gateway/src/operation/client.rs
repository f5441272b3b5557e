//! Asks a running gateway for its status.

/// Prints the status of the gateway at an address, or of that with this configuration.
///
/// # Errors
/// If no gateway answers there.
pub fn status(_from: &str, _json: bool) -> anyhow::Result<()> {
    anyhow::bail!("not written yet")
}
