//! Fills a shelf one filter at a time. Only the rows and one filter are in memory.

use std::collections::BTreeMap;

use super::{CRC, Member, Shelf, SizeClass, count_units, malformed, row_checksum};
use crate::arrow::ColumnType;
use crate::bloom::{Block, Sbbf};
use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64, to_usize};

/// A shelf that is being filled. Its rows are in memory, and filters may be added in any order.
#[derive(Debug)]
pub struct Arrangement {
    shelf: Shelf,
    rows: Vec<u8>,
    /// For each unit, its size class and its position in the class's rows. `None` if the unit has no filter, or its
    /// filter has been placed.
    places: Vec<Option<(usize, usize)>>,
}

impl Arrangement {
    /// Creates a shelf for locations with the given numbers of blocks of each unit. A unit without a filter has no
    /// values.
    pub fn new(column: ColumnType, members: Vec<(Member, Vec<Option<u64>>)>) -> Result<Self> {
        let wrong = members.iter().position(|(member, units)| member.num_units() != to_u64(units.len()));
        if let Some(location) = wrong {
            return Err(malformed(to_u64(location), "the number of units"));
        }
        let (members, blocks): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let num_units = count_units(&members)?;
        let mut sizes: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (number, num_blocks) in blocks.iter().flatten().enumerate() {
            if let Some(num_blocks) = num_blocks {
                sizes.entry(*num_blocks).or_default().push(saturating_u32(number));
            }
        }
        let mut places = vec![None; num_units];
        let mut classes = Vec::new();
        let mut offset = 0;
        for (num_blocks, units) in sizes {
            for (place, &unit) in units.iter().enumerate() {
                places[index(unit)] = Some((classes.len(), place));
            }
            let class = SizeClass { num_blocks, offset, members: units };
            offset += num_blocks * class.row_len();
            classes.push(class);
        }
        let mut rows = Vec::new();
        let out_of_memory = || Error::new(ErrorKind::OutOfMemory { num_bytes: offset });
        let len = to_usize(offset).ok_or_else(out_of_memory)?;
        rows.try_reserve_exact(len).map_err(|_| out_of_memory())?;
        rows.resize(len, 0);
        Ok(Self { shelf: Shelf { column, members, num_units, classes }, rows, places })
    }

    /// Copies the filter of a unit into the rows. Each unit takes one filter, of the size passed to [`Self::new`].
    pub fn place(&mut self, number: usize, filter: &Sbbf) -> Result<()> {
        let wrong = || malformed(to_u64(number), "the place of a filter");
        let (class, place) = self.places.get_mut(number).and_then(Option::take).ok_or_else(wrong)?;
        let class = &self.shelf.classes[class];
        if class.num_blocks != filter.num_blocks() {
            return Err(wrong());
        }
        let row_len = to_usize(class.row_len()).ok_or_else(wrong)?;
        let start = to_usize(class.offset).ok_or_else(wrong)?;
        let rows = self.rows[start..].chunks_exact_mut(row_len);
        for (row, block) in rows.zip(filter.bitset().chunks_exact(Block::BYTES)) {
            row[place * Block::BYTES..][..Block::BYTES].copy_from_slice(block);
        }
        Ok(())
    }

    /// Returns the shelf and its rows. Fails if a filter is missing.
    pub fn finish(mut self) -> Result<(Shelf, Vec<u8>)> {
        if let Some(missing) = self.places.iter().position(Option::is_some) {
            return Err(malformed(to_u64(missing), "a filter that was not placed"));
        }
        let mut rest = self.rows.as_mut_slice();
        for class in &self.shelf.classes {
            let row_len = Block::BYTES * class.members.len() + CRC;
            for block in 0..class.num_blocks {
                let (row, after) = rest.split_at_mut(row_len);
                let (blocks, checksum) = row.split_at_mut(row_len - CRC);
                checksum.copy_from_slice(&row_checksum(class, block, blocks).to_le_bytes());
                rest = after;
            }
        }
        Ok((self.shelf, self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_must_be_placed_exactly_once() {
        let filter = |blocks| Sbbf::new(blocks).unwrap();
        let empty = || {
            Arrangement::new(
                "INT64 integer".parse().unwrap(),
                vec![(Member::default(), vec![Some(4)]), (Member::default(), vec![None])],
            )
            .unwrap()
        };
        let mut arrangement = empty();
        assert!(arrangement.place(1, &filter(4)).is_err(), "it has no values");
        assert!(arrangement.place(2, &filter(4)).is_err(), "there is no such location");
        arrangement.place(0, &filter(4)).unwrap();
        assert!(arrangement.place(0, &filter(4)).is_err(), "twice");
        assert_eq!(arrangement.finish().unwrap().1.len(), 4 * (32 + 4));
        assert!(empty().place(0, &filter(5)).is_err(), "another size");
        assert!(empty().finish().is_err(), "a filter is missing");
    }
}
