//! The layouts of the design: the distribution of keys over locations.

use parsieve::sieve::Bytes;

/// The layouts with integer keys.
pub(crate) const LAYOUTS: [&str; 8] =
    ["sorted", "lineitem", "late", "clumps", "hashed", "uniform1", "uniform10", "zipf"];

/// A generator of random words.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap()
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn location(part: u64, whole: u64, locations: u32) -> u32 {
    u32::try_from(u128::from(part) * u128::from(locations) / u128::from(whole)).unwrap().min(locations - 1)
}

/// Keys on a sparse axis: ascending with random gaps of 1000 on average.
fn sparse(rows: u64, random: &mut Random) -> Vec<u64> {
    let mut key = 1 << 40;
    (0..rows)
        .map(|_| {
            key += 1 + random.below(2000);
            key
        })
        .collect()
}

/// Returns the rows of a layout with integer keys.
pub(crate) fn words(layout: &str, rows: u64, locations: u32) -> Vec<(u64, u32)> {
    let random = &mut Random(42);
    let at = |row| location(row, rows, locations);
    match layout {
        "sorted" => (0..).zip(sparse(rows, random)).map(|(row, key)| (key, at(row))).collect(),
        "lineitem" => {
            // Eight of every 32 order keys, one to seven lines each, written in order.
            let (mut pairs, mut order) = (Vec::new(), 0u64);
            while pairs.len() < usize::try_from(rows).unwrap() {
                let key = order / 8 * 32 + order % 8 + 1;
                for _ in 0..=random.below(7) {
                    pairs.push((key, at(u64::try_from(pairs.len()).unwrap().min(rows - 1))));
                }
                order += 1;
            }
            pairs
        }
        "late" => {
            let keys = sparse(rows, random);
            let mut pairs: Vec<(u64, u64)> = keys
                .iter()
                .map(|&key| {
                    let late = random.below(20) == 0;
                    (key + if late { random.below(rows * 300) } else { 0 }, key)
                })
                .collect();
            pairs.sort_unstable();
            (0..).zip(pairs).map(|(row, (_, key))| (key, at(row))).collect()
        }
        "clumps" => {
            let slots = u64::from(locations) * 2;
            (0..)
                .zip(sparse(rows, random))
                .map(|(row, key)| {
                    let slot = row * slots / rows;
                    // The days of January are in order, those in December are shuffled.
                    let place = if slot < slots / 2 { slot } else { (slot * 7 + 3) % u64::from(locations) };
                    (key, u32::try_from(place).unwrap())
                })
                .collect()
        }
        "hashed" => {
            sparse(rows, random).into_iter().map(|key| (key, location(mix(key) >> 16, 1 << 48, locations))).collect()
        }
        "uniform1" => {
            let keys = sparse(rows, random);
            keys.into_iter().map(|key| (key, u32::try_from(random.below(u64::from(locations))).unwrap())).collect()
        }
        "uniform10" => {
            let keys = sparse(rows / 10, random);
            (0..rows)
                .map(|row| {
                    (
                        keys[usize::try_from(row / 10).unwrap()],
                        u32::try_from(random.below(u64::from(locations))).unwrap(),
                    )
                })
                .collect()
        }
        "zipf" => {
            // A Pareto rank cut at 120,000 keys: about 24 rows for each key, and half of all rows in a few keys.
            let universe = 120_000u64;
            (0..rows)
                .map(|_| {
                    let rank = (random.unit().powf(-1.0 / 0.25) - 1.0) * 6.0;
                    let rank = if rank < universe as f64 { rank as u64 } else { random.below(universe) };
                    (mix(rank) >> 8, u32::try_from(random.below(u64::from(locations))).unwrap())
                })
                .collect()
        }
        other => panic!("no layout {other}"),
    }
}

/// Returns rows with random UUIDs as text.
pub(crate) fn uuids(rows: u64, locations: u32) -> Vec<(Bytes, u32)> {
    let random = &mut Random(43);
    (0..rows)
        .map(|_| {
            let (a, b) = (random.next(), random.next());
            let text = format!(
                "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
                a >> 32,
                a >> 16 & 0xffff,
                a & 0xfff,
                b >> 52,
                b & 0xffff_ffff_ffff
            );
            (Bytes::new(text.as_bytes()), u32::try_from(random.below(u64::from(locations))).unwrap())
        })
        .collect()
}
