//! Builds: from sorted keys to segments, in memory, streamed, or in partitions to be joined.

pub(in crate::sieve) mod budget;
pub(in crate::sieve) mod builder;
pub(in crate::sieve) mod join;
pub(in crate::sieve) mod kept;
pub(in crate::sieve) mod merge;
pub(in crate::sieve) mod pages;
pub(in crate::sieve) mod sort;
pub(in crate::sieve) mod stream;
