//! x
/// x
pub fn missing() -> Vec<String> {
    vec![]
}
