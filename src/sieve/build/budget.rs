//! Builds an index within a limit on its size, by bisecting the slope that all segments share.

use crate::error::Result;
use crate::int::to_u64;
use crate::sieve::index::directory::Built;
use crate::sieve::key::axis::Key;
use crate::sieve::record::options::Coarsen;

/// Builds an index whose lookup sections fit in `max_bytes`: an exact one if possible, otherwise the one with the
/// gentlest slope that fits. If no slope fits, builds with the steepest one. Using one slope for all segments is the
/// cheapest way to save bits. Calls `build` at most seven times.
pub fn within_budget<K: Key>(max_bytes: u64, mut build: impl FnMut(Coarsen) -> Result<Built<K>>) -> Result<Built<K>> {
    let fits =
        |built: &Built<K>| built.segments.iter().map(|segment| to_u64(segment.lookup.len())).sum::<u64>() <= max_bytes;
    let exact = build(Coarsen::Exact)?;
    if fits(&exact) {
        return Ok(exact);
    }
    // Slopes are powers of two, from a thousandth of a read to a million reads per bit.
    let (mut gentlest, mut steepest) = (0, 31);
    let mut best = None;
    while gentlest < steepest {
        let middle = (gentlest + steepest) / 2;
        let built = build(Coarsen::Slope { thousandths: 1 << middle })?;
        if fits(&built) {
            steepest = middle;
            best = Some(built);
        } else {
            gentlest = middle + 1;
        }
    }
    best.map_or_else(|| build(Coarsen::Slope { thousandths: u32::MAX }), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::{Builder, Options};

    #[test]
    fn the_index_fits_in_a_budget_that_is_large_enough() {
        let build = |coarsen| {
            let mut builder = Builder::new(64, Options { coarsen, ..Options::default() })?;
            (0..4000u64).try_for_each(|key| builder.push(key * 977, u32::try_from(key * key % 61).unwrap(), 1))?;
            Ok(builder.finish())
        };
        let size = |built: &Built<u64>| built.segments.iter().map(|segment| to_u64(segment.lookup.len())).sum::<u64>();
        let exact = size(&build(Coarsen::Exact).unwrap());
        let slopes = (0..32).map(|power| Coarsen::Slope { thousandths: 1 << power });
        let sizes: Vec<u64> = slopes.map(|slope| size(&build(slope).unwrap())).collect();
        for share in [2, 4, 20] {
            // The gentlest slope that fits.
            let expected = sizes.iter().find(|size| **size <= exact / share).unwrap();
            assert_eq!(size(&within_budget(exact / share, build).unwrap()), *expected, "1/{share} of {exact}");
        }
        assert_eq!(size(&within_budget(exact, build).unwrap()), exact);
    }
}
