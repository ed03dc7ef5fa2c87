//! Hashes a range of slots, with one implementation per array layout. Each batch costs one virtual call.

use super::{hash_strings, hash_u32s, hash_u64s};
use crate::error::{Error, Result};
use crate::isa::InstructionSet;
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};

/// Number of slots converted at a time before they are hashed, so that the scratch buffer stays in the L1 cache.
const SCRATCH: usize = 256;

/// An array whose slots can be hashed. Null slots get an arbitrary hash.
pub(super) trait Slots: Send + Sync {
    /// Hashes the `hashes.len()` slots from `start` on.
    fn hash(&self, isa: InstructionSet, start: usize, hashes: &mut [u64]) -> Result<()>;
}

/// Four-byte values in Parquet's own representation, hashed without a copy.
pub(super) struct Words32(pub ScalarBuffer<u32>);

impl Slots for Words32 {
    fn hash(&self, isa: InstructionSet, start: usize, hashes: &mut [u64]) -> Result<()> {
        hash_u32s(isa, &self.0[start..start + hashes.len()], hashes);
        Ok(())
    }
}

/// Eight-byte values in Parquet's own representation, hashed without a copy.
pub(super) struct Words64(pub ScalarBuffer<u64>);

impl Slots for Words64 {
    fn hash(&self, isa: InstructionSet, start: usize, hashes: &mut [u64]) -> Result<()> {
        hash_u64s(isa, &self.0[start..start + hashes.len()], hashes);
        Ok(())
    }
}

/// Numbers that must be converted first. `convert` may refuse a value; `refuse` then returns the error for its slot.
pub(super) struct Converted<N: ArrowNativeType, F, E> {
    pub values: ScalarBuffer<N>,
    pub nulls: Option<NullBuffer>,
    pub convert: F,
    pub refuse: E,
}

impl<N: ArrowNativeType, F, E> Converted<N, F, E> {
    /// Converts slots into `scratch`. A null slot whose value cannot be converted becomes `W::default()`.
    fn fill<W: Copy + Default>(&self, start: usize, scratch: &mut [W]) -> Result<()>
    where
        F: Fn(N) -> Option<W>,
        E: Fn(usize) -> Error,
    {
        for (slot, word) in (start..).zip(scratch) {
            *word = match (self.convert)(self.values[slot]) {
                Some(converted) => converted,
                None if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(slot)) => W::default(),
                None => return Err((self.refuse)(slot)),
            };
        }
        Ok(())
    }
}

/// Defines slots for one stored representation of numbers.
macro_rules! converted_slots {
    ($name:ident, $word:ty, |$isa:ident, $words:ident, $hashes:ident| $hash:expr) => {
        /// Numbers converted to this representation.
        pub(super) struct $name<N: ArrowNativeType, F, E>(pub Converted<N, F, E>);

        impl<N, F, E> Slots for $name<N, F, E>
        where
            N: ArrowNativeType,
            F: Fn(N) -> Option<$word> + Send + Sync,
            E: Fn(usize) -> Error + Send + Sync,
        {
            fn hash(&self, $isa: InstructionSet, start: usize, hashes: &mut [u64]) -> Result<()> {
                let mut scratch = [<$word>::default(); SCRATCH];
                for (at, $hashes) in (start..).step_by(SCRATCH).zip(hashes.chunks_mut(SCRATCH)) {
                    let $words = &mut scratch[..$hashes.len()];
                    self.0.fill(at, $words)?;
                    $hash;
                }
                Ok(())
            }
        }
    };
}

converted_slots!(As32, u32, |isa, words, hashes| hash_u32s(isa, words, hashes));
converted_slots!(As64, u64, |isa, words, hashes| hash_u64s(isa, words, hashes));
converted_slots!(AsBytes, ShortBytes, |isa, words, hashes| {
    let mut strings: [&[u8]; SCRATCH] = [&[]; SCRATCH];
    for (string, word) in strings.iter_mut().zip(words.iter()) {
        *string = word.as_slice();
    }
    hash_strings(isa, &strings[..hashes.len()], hashes);
});

/// Up to 32 bytes, which hold a decimal, a half-precision float or an INT96.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ShortBytes {
    bytes: [u8; Self::MAX],
    start: u8,
}

impl ShortBytes {
    pub(super) const MAX: usize = 32;

    /// Returns the last `len` bytes of `bytes`.
    pub(super) fn last(bytes: [u8; Self::MAX], len: usize) -> Self {
        Self { bytes, start: (Self::MAX - len) as u8 }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

/// Byte strings, hashed without a copy.
pub(super) struct Strings<F>(pub F);

impl<F> Slots for Strings<F>
where
    F: for<'a> StringAt<'a>,
{
    fn hash(&self, isa: InstructionSet, start: usize, hashes: &mut [u64]) -> Result<()> {
        let mut strings: [&[u8]; SCRATCH] = [&[]; SCRATCH];
        for (at, hashes) in (start..).step_by(SCRATCH).zip(hashes.chunks_mut(SCRATCH)) {
            let strings = &mut strings[..hashes.len()];
            self.0.fill(at, strings)?;
            hash_strings(isa, strings, hashes);
        }
        Ok(())
    }
}

/// Borrows the byte strings of slots. A trait, because a closure cannot return a borrow from itself.
pub(super) trait StringAt<'a>: Send + Sync {
    fn fill(&'a self, start: usize, strings: &mut [&'a [u8]]) -> Result<()>;
}

/// Slots that refer to entries whose hashes are already known.
pub(super) struct Entries<F> {
    pub hashes: Vec<u64>,
    /// Calls back with the entry of each slot from `start` on, until the callback returns false.
    pub entry: F,
}

impl<F: Fn(usize, &mut dyn FnMut(usize) -> bool) + Send + Sync> Slots for Entries<F> {
    fn hash(&self, _: InstructionSet, start: usize, hashes: &mut [u64]) -> Result<()> {
        let mut out = hashes.iter_mut();
        // A null slot may refer to any entry, even a nonexistent one.
        (self.entry)(start, &mut |entry| match out.next() {
            Some(hash) => {
                *hash = self.hashes.get(entry).copied().unwrap_or_default();
                true
            }
            None => false,
        });
        Ok(())
    }
}
