//! A value that is replaced while tasks read it.

use std::sync::Arc;

use parking_lot::RwLock;

/// A value that is replaced as a whole.
#[derive(Debug)]
pub struct Live<T>(RwLock<Arc<T>>);

impl<T> Live<T> {
    /// A live value that begins with `value`.
    pub fn new(value: T) -> Live<T> {
        Live(RwLock::new(Arc::new(value)))
    }

    /// The present value.
    pub fn get(&self) -> Arc<T> {
        self.0.read().clone()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.0.write() = Arc::new(value);
    }
}
