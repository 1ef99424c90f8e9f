//! The commands, a file each: arguments, what the daemon is asked, and how the answer reads.

pub(crate) mod answer;
pub(crate) mod approve;
pub(crate) mod attach;
pub(crate) mod call;
pub(crate) mod close;
pub(crate) mod completions;
pub(crate) mod configure;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod interrupt;
pub(crate) mod items;
pub(crate) mod models;
pub(crate) mod new;
pub(crate) mod pending;
pub(crate) mod ps;
pub(crate) mod queue;
pub(crate) mod send;
pub(crate) mod sessions;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod trust;
