//! Computes the size of a filter from the number of values and the false positive rate, and vice versa. There are two
//! models: the exact one, and the simple formula of other writers.
//!
//! With `n` values in `z` blocks, the number `j` of values in a block has a Poisson distribution with mean `n/z`. A
//! random probe finds each of its eight bits set with probability `1 - (31/32)^j` (specification, section 3.3):
//! `f(n, z) = sum_j Pois(j; n/z) * (1 - (31/32)^j)^8`.

use super::sbbf::Sbbf;
use crate::error::{Error, ErrorKind, Result};

/// The allowed filter sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Powers of two, which older Arrow readers require.
    PowersOfTwo,
    /// Any number of blocks.
    Any,
}

/// The formula for the size of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Never exceeds the requested false positive rate.
    Exact,
    /// `m = -8 n / ln(1 - f^(1/8))`, as in arrow-rs and parquet-java. Ignores that blocks fill unevenly, so filters are
    /// too small.
    Simple,
}

/// Above this many values per block, a bit is clear with a probability below 1e-27, and the sum below would only take
/// longer.
const SATURATED: f64 = 2000.0;

/// Returns the false positive rate of a filter with `num_blocks` blocks and `ndv` distinct values, by the exact model.
pub fn false_positive_rate(ndv: u64, num_blocks: u64) -> f64 {
    mean_rate(ndv, num_blocks, 1)
}

/// Returns the mean, over all blocks, of the false positive rate of a block raised to `power`.
fn mean_rate(ndv: u64, num_blocks: u64, power: i32) -> f64 {
    let load = ndv as f64 / num_blocks as f64;
    if load > SATURATED {
        return 1.0;
    }
    // Twelve standard deviations to either side omit less than 1e-30.
    let reach = 12.0 * load.sqrt() + 40.0;
    let (first, last) = ((load - reach).max(0.0).floor(), (load + reach).ceil());
    if load == 0.0 {
        return 0.0;
    }
    // Start at the mode, where the probability is largest, and walk to both sides. No term underflows before it is
    // negligible.
    let mode = load.floor();
    let at_mode = (mode * load.ln() - load - ln_factorial(mode)).exp();
    let hit = |j: f64| (1.0 - (31.0f64 / 32.0).powf(j)).powi(8 * power);
    let (mut rate, mut chance, mut j) = (0.0, at_mode, mode);
    while j <= last {
        rate += chance * hit(j);
        j += 1.0;
        chance *= load / j;
    }
    (chance, j) = (at_mode, mode);
    while j > first {
        chance *= j / load;
        j -= 1.0;
        rate += chance * hit(j);
    }
    rate.clamp(0.0, 1.0)
}

/// Computes `ln(n!)` by Stirling's series, which is exact to 1e-12 from 16 on, and by a product below.
fn ln_factorial(n: f64) -> f64 {
    if n < 16.0 {
        return (2..=n as u32).map(|i| f64::from(i).ln()).sum();
    }
    let x = n + 1.0;
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

/// Returns an error if `fpp` is not between 0 and 1.
pub fn check_fpp(fpp: f64) -> Result<()> {
    if fpp > 0.0 && fpp < 1.0 { Ok(()) } else { Err(Error::new(ErrorKind::Fpp)) }
}

/// Returns the smallest number of blocks whose false positive rate for `ndv` distinct values is at most `fpp`.
pub fn optimal_blocks(ndv: u64, fpp: f64, sizes: Sizes, model: Model) -> Result<u64> {
    check_fpp(fpp)?;
    match model {
        Model::Simple => simple_blocks(ndv, fpp, sizes),
        Model::Exact => exact_blocks(ndv, fpp, sizes),
    }
    .ok_or_else(|| Error::new(ErrorKind::TooManyValues { ndv }))
}

/// Returns a number of blocks, at most `max_blocks`, for a filter that gets up to `ndv` distinct values and is then
/// folded by the bits that are set. Both numbers of blocks are powers of two.
///
/// The rate computed from the bits varies around the rate of the model. With a margin of six standard deviations, it
/// practically never exceeds `fpp`.
pub fn blocks_before_fold(ndv: u64, fpp: f64, max_blocks: u64) -> u64 {
    let keeps = |num_blocks: u64| {
        let (mean, mean_square) = (mean_rate(ndv, num_blocks, 1), mean_rate(ndv, num_blocks, 2));
        let deviation = ((mean_square - mean * mean).max(0.0) / num_blocks as f64).sqrt();
        mean + 6.0 * deviation <= fpp
    };
    let mut num_blocks = 1;
    while num_blocks < max_blocks && !keeps(num_blocks) {
        num_blocks *= 2;
    }
    num_blocks
}

fn exact_blocks(ndv: u64, fpp: f64, sizes: Sizes) -> Option<u64> {
    let keeps = |num_blocks: u64| false_positive_rate(ndv, num_blocks) <= fpp;
    match sizes {
        Sizes::PowersOfTwo => (0..26).map(|power| 1 << power).find(|num_blocks| keeps(*num_blocks)),
        Sizes::Any => {
            let (mut low, mut high) = (1, Sbbf::MAX_BLOCKS);
            if !keeps(high) {
                return None;
            }
            // The rate falls with every additional block, so a binary search finds the smallest size.
            while low < high {
                let middle = low + (high - low) / 2;
                if keeps(middle) { high = middle } else { low = middle + 1 }
            }
            Some(low)
        }
    }
}

/// Computes the size as arrow-rs does: truncate to bytes, clamp to 32 B to 128 MiB, round up to a power of two.
fn simple_blocks(ndv: u64, fpp: f64, sizes: Sizes) -> Option<u64> {
    let bits = -8.0 * ndv as f64 / (-fpp.powf(1.0 / 8.0)).ln_1p();
    let bytes = (bits / 8.0) as u64;
    match sizes {
        Sizes::PowersOfTwo => Some(bytes.clamp(32, 128 << 20).next_power_of_two() / 32),
        Sizes::Any => Some(bytes.div_ceil(32).max(1)).filter(|num_blocks| *num_blocks <= Sbbf::MAX_BLOCKS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The binomial expansion of the model. It is short and exact for moderate rates, but cancellation makes it useless
    /// below 1e-12.
    fn closed_form(ndv: u64, num_blocks: u64) -> f64 {
        mean_of_power(ndv, num_blocks, 8)
    }

    /// The mean of a power of the share of bits that are set in a word of a block.
    fn mean_of_power(ndv: u64, num_blocks: u64, power: i32) -> f64 {
        let load = ndv as f64 / num_blocks as f64;
        let choose = |k: i32| (0..k).map(|i| f64::from(power - i) / f64::from(i + 1)).product::<f64>();
        (0..=power).map(|k| (-1f64).powi(k) * choose(k) * (-load * (1.0 - (31f64 / 32.0).powi(k))).exp()).sum()
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic only, and much of it")]
    fn the_model_agrees_with_its_closed_form() {
        for num_blocks in [1u64, 3, 1024, 1 << 20] {
            for load in [0.1, 1.0, 10.0, 25.6, 51.2, 300.0, 5000.0] {
                let ndv = (load * num_blocks as f64) as u64;
                let (sum, form) = (false_positive_rate(ndv, num_blocks), closed_form(ndv, num_blocks));
                assert!((sum - form).abs() < 1e-11, "{ndv} in {num_blocks}: {sum} against {form}");
            }
        }
        assert_eq!(false_positive_rate(0, 1), 0.0);
        assert!(false_positive_rate(u64::MAX, 1) > 0.999_999);
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic only, and much of it")]
    fn the_size_before_folding_keeps_six_standard_deviations() {
        let keeps = |ndv, num_blocks, fpp| {
            let mean = mean_of_power(ndv, num_blocks, 8);
            let variance = (mean_of_power(ndv, num_blocks, 16) - mean * mean) / num_blocks as f64;
            mean + 6.0 * variance.sqrt() <= fpp
        };
        for ndv in (1..40).map(|step| 37 * step * step) {
            for fpp in [0.3, 0.1, 0.05, 0.01] {
                let size = (0..20).map(|power| 1 << power).find(|num_blocks| keeps(ndv, *num_blocks, fpp)).unwrap();
                assert_eq!(blocks_before_fold(ndv, fpp, 1 << 20), size, "{ndv} at {fpp}");
                assert_eq!(blocks_before_fold(ndv, fpp, size), size, "{ndv} at {fpp}");
                assert_eq!(blocks_before_fold(ndv, fpp, (size / 2).max(1)), (size / 2).max(1), "{ndv} at {fpp}");
            }
        }
    }

    #[test]
    fn the_logarithm_of_factorials_is_exact() {
        let mut product = 0.0;
        for n in 1..60 {
            product += f64::from(n).ln();
            assert!((ln_factorial(f64::from(n)) / product.max(1.0) - product / product.max(1.0)).abs() < 1e-12, "{n}");
        }
        assert_eq!(ln_factorial(0.0), 0.0);
    }

    #[test]
    fn the_simple_formula_also_gives_sizes_between_powers_of_two() {
        // 10,000 values need 8 * 10,000 / -ln(1 - 0.01^(1/8)) = 96,810 bits.
        assert_eq!(optimal_blocks(10_000, 0.01, Sizes::Any, Model::Simple), Ok(379));
        assert_eq!(optimal_blocks(0, 0.01, Sizes::Any, Model::Simple), Ok(1));
        assert!(optimal_blocks(u64::MAX, 0.01, Sizes::Any, Model::Simple).is_err());
    }

    #[test]
    fn the_model_gives_the_rates_of_specification_section_3_2() {
        for (ndv, rate) in [(26_214, 0.012648), (52_428, 0.1792), (13_107, 0.000420)] {
            let model = false_positive_rate(ndv, 1024);
            assert!((model / rate - 1.0).abs() < 1e-3, "{ndv}: {model}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic only, and much of it")]
    fn the_model_gives_the_bits_per_value_of_specification_section_3_3() {
        let z = 1_000_000;
        for (fpp, bits) in [
            (0.10, 5.99),
            (0.05, 7.23),
            (0.02, 9.02),
            (0.01, 10.53),
            (0.005, 12.20),
            (0.001, 16.89),
            (1e-4, 26.34),
            (1e-5, 40.99),
        ] {
            let ndv = (z as f64 * 256.0 / bits) as u64;
            let rate = false_positive_rate(ndv, z);
            assert!((rate / fpp - 1.0).abs() < 0.01, "{bits} bits: {rate}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic only, and much of it")]
    fn exact_sizes_keep_the_rate_for_all_rows_of_specification_section_4() {
        // Values, requested rate, number of blocks by the simple formula, actual rate.
        let rows = [
            (10_000, 0.1, 256, 7.2e-2),
            (10_000, 0.01, 512, 3.5e-3),
            (10_000, 0.001, 1_024, 1.03e-4),
            (10_000, 0.0001, 1_024, 1.03e-4),
            (100_000, 0.1, 4_096, 1.02e-2),
            (100_000, 0.01, 4_096, 1.02e-2),
            (100_000, 0.001, 8_192, 3.3e-4),
            (100_000, 0.0001, 16_384, 8.9e-6),
            (100_000, 0.00001, 16_384, 8.9e-6),
            (1_000_000, 0.1, 32_768, 2.7e-2),
            (1_000_000, 0.01, 65_536, 1.03e-3),
            (1_000_000, 0.001, 65_536, 1.03e-3),
            (1_000_000, 0.0001, 131_072, 2.8e-5),
            (1_000_000, 0.00001, 131_072, 2.8e-5),
            (1_000_000, 0.000001, 262_144, 8.3e-7),
        ];
        let mut misses = 0;
        for (ndv, fpp, blocks, real) in rows {
            let simple = optimal_blocks(ndv, fpp, Sizes::PowersOfTwo, Model::Simple).unwrap();
            assert_eq!(simple, blocks, "{ndv} at {fpp}");
            let rate = false_positive_rate(ndv, simple);
            assert!((rate / real - 1.0).abs() < 0.03, "{ndv} at {fpp}: {rate}");
            misses += usize::from(rate > fpp);

            for sizes in [Sizes::PowersOfTwo, Sizes::Any] {
                let exact = optimal_blocks(ndv, fpp, sizes, Model::Exact).unwrap();
                assert!(false_positive_rate(ndv, exact) <= fpp);
                let smaller = if sizes == Sizes::Any { exact - 1 } else { exact / 2 };
                assert!(false_positive_rate(ndv, smaller) > fpp, "{ndv} at {fpp}: {exact} blocks are more than needed");
            }
        }
        assert_eq!(misses, 4, "the simple formula breaks its promise where the specification says");
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic only, and much of it")]
    fn impossible_rates_and_sizes_are_errors() {
        for fpp in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(optimal_blocks(10, fpp, Sizes::Any, Model::Exact).unwrap_err().kind(), &ErrorKind::Fpp);
        }
        assert!(optimal_blocks(u64::MAX, 0.01, Sizes::Any, Model::Exact).is_err());
        assert!(optimal_blocks(u64::MAX, 0.01, Sizes::PowersOfTwo, Model::Exact).is_err());
        assert_eq!(optimal_blocks(0, 0.01, Sizes::Any, Model::Exact), Ok(1));
    }
}
