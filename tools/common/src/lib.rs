//! Conventions that every tool keeps.
