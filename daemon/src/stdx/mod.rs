//! What could be in the standard library: knows nothing of Crystal.

pub mod atomic_file;
pub mod process_tree;
pub mod rotating_file;
pub mod truncate;
pub mod utf8_chunks;
pub mod visible;
