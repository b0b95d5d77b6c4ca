//! The canonical stream: keyed state of one key group as bytes, the same for every backend.
//!
//! The format is defined in `docs/format/canonical-stream.md`. A group is a sequence of table sections
//! `table: u16 | length: u64 | entries`, an entry is four byte strings (key, namespace, map key, value), each with its
//! length before it as an unsigned LEB128 number. Fixed-width numbers are little-endian.

use bytes::Bytes;

use crate::backend::EntryVisitor;
use crate::{At, Entry, FrozenState, KeyGroup, StateError, TableId};

const SECTION_HEADER_BYTES: usize = 2 + 8;

/// Appends the canonical stream of one key group of a snapshot to `out`. Appends nothing when the group is empty.
pub fn write_key_group(frozen: &mut dyn FrozenState, group: KeyGroup, out: &mut Vec<u8>) -> Result<(), StateError> {
    let mut section: Option<(TableId, usize)> = None;
    frozen.visit_key_group(group, &mut |entry| {
        if section.is_none_or(|(table, _)| table != entry.at.table) {
            if section.is_some_and(|(table, _)| table > entry.at.table) {
                let what = format!("its snapshot visits table {} of key group {group} again", entry.at.table.0);
                return Err(StateError::Backend(what.into()));
            }
            close(section.take(), out);
            section = Some((entry.at.table, out.len()));
            out.extend_from_slice(&entry.at.table.0.to_le_bytes());
            out.extend_from_slice(&0u64.to_le_bytes());
        }
        write_entry(&entry, out);
        Ok(())
    })?;
    close(section, out);
    Ok(())
}

fn close(section: Option<(TableId, usize)>, out: &mut [u8]) {
    if let Some((_, start)) = section {
        let length = (out.len() - start - SECTION_HEADER_BYTES) as u64;
        out[start + 2..start + SECTION_HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    }
}

fn write_entry(entry: &Entry<'_>, out: &mut Vec<u8>) {
    for part in [entry.at.key, entry.at.namespace, entry.at.map_key, entry.value] {
        write_byte_string(part, out);
    }
}

/// Appends a byte string with its length before it.
pub(crate) fn write_byte_string(bytes: &[u8], out: &mut Vec<u8>) {
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length as u8) | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}

/// The entries of one table in one key group: a slice of a canonical stream.
#[derive(Debug, Clone)]
pub struct Section {
    /// The number that the table had when the stream was written.
    pub table: TableId,
    /// The entries.
    pub entries: Bytes,
}

/// Splits the canonical stream of one key group into its sections, without copying.
pub fn sections(mut stream: Bytes) -> Result<Vec<Section>, StateError> {
    let mut sections: Vec<Section> = Vec::new();
    while !stream.is_empty() {
        if stream.len() < SECTION_HEADER_BYTES {
            return Err(damaged("a section header is cut off"));
        }
        let header = stream.split_to(SECTION_HEADER_BYTES);
        let (table, length) = header.split_at(2);
        let table = TableId(u16::from_le_bytes(table.try_into().expect("two bytes were split off")));
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes were split off"));
        let length = usize::try_from(length).ok().filter(|length| *length <= stream.len());
        let length = length.ok_or_else(|| damaged("a section is longer than its stream"))?;
        if sections.last().is_some_and(|last| last.table >= table) {
            return Err(damaged("the sections are not in order"));
        }
        sections.push(Section { table, entries: stream.split_to(length) });
    }
    Ok(sections)
}

impl Section {
    /// Visits the entries, as entries of table `table` and key group `group`.
    pub fn visit(&self, table: TableId, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        let mut rest = &self.entries[..];
        while !rest.is_empty() {
            let mut next = || byte_string(&mut rest).map_err(damaged);
            let (key, namespace, map_key, value) = (next()?, next()?, next()?, next()?);
            visit(Entry { at: At { table, group, key, namespace, map_key }, value })?;
        }
        Ok(())
    }
}

/// Takes a byte string with its length before it from the front of `rest`. An error says what is wrong with the bytes.
pub(crate) fn byte_string<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], &'static str> {
    let mut length = 0u64;
    for shift in (0..).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or("a length is cut off")?;
        *rest = tail;
        if shift > 56 {
            return Err("a length has more than nine bytes");
        }
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
    let (bytes, tail) = rest.split_at(length.ok_or("a byte string is longer than what is left")?);
    *rest = tail;
    Ok(bytes)
}

fn damaged(what: &str) -> StateError {
    StateError::Damaged(format!("canonical stream: {what}"))
}

#[cfg(test)]
#[path = "canonical_test.rs"]
mod canonical_test;
