//! What could be in the standard library: knows nothing of Crystal.

pub mod atomic_file;
pub mod truncate;
pub mod visible;
