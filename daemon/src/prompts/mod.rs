//! System text.
