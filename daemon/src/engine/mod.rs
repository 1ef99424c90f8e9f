//! The engine: one actor a session owns all of its state, and drives its turns.
//!
//! - [`command`]: what a session can be asked; [`command::SessionHandle`] is its only door.
//! - `actor`: the mailbox loop. Everything that changes a session happens in it, one thing after the other.
//! - `journal`: what must survive goes to the log, then into the head, then becomes an event: in this order.
//! - `turn`, `dispatch`, `folding`: the task of a running turn. It talks to the model and runs tools, owns no state, and tells the
//!   actor what happens through a bounded channel (`messages`).
//! - `round`, `calls`, `turns`, `inquiries`, `queue`, `operator`, `settings`, `paging`, `compaction`,
//!   `recover`: the actor's parts by subject.
//! - [`event_log`]: the window of events that clients follow. `transcript`: items as the model sees them.
//!
//! A turn's life: `Submit` writes the prompt and syncs, starts the turn task. The task asks for a request, streams the
//! model's events to the actor, which makes items of them; at the round's end it gets the calls back, has each judged
//! (which may wait for a person), runs them, reports the results, and goes round again. It ends by itself, by a limit, or
//! by the cancellation token that an interrupt fires; it always reports its end as its last word.

mod actor;
mod calls;
pub mod command;
mod compaction;
mod dispatch;
pub mod event_log;
mod folding;
mod inquiries;
mod journal;
mod messages;
mod open_items;
mod operator;
pub mod paging;
mod queue;
mod recover;
mod round;
pub mod services;
pub mod settings;
mod system;
mod transcript;
mod turn;
mod turns;
mod verdict;

pub use actor::{Start, spawn};
