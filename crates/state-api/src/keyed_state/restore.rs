//! Restoring: the streams of a snapshot go into the rows or the byte tables, before any state is registered.

use bytes::Bytes;

use super::KeyedState;
use crate::rows::{byte_tables, restored_sections};
use crate::{KeyGroup, StateError, TableMeta};

impl KeyedState {
    /// Takes the canonical stream of one key group of a snapshot in which the tables were `tables`.
    ///
    /// Before any state is registered. States are decoded when they are registered; those that never are go into every
    /// later snapshot unchanged. Fails when tables of the same name do not agree between streams, when the group is
    /// not one of this subtask, and when the stream is damaged.
    ///
    /// # Panics
    /// When a state is registered already.
    pub fn restore_key_group(
        &mut self,
        tables: &[TableMeta],
        group: KeyGroup,
        stream: Bytes,
    ) -> Result<(), StateError> {
        self.rows.keys.groups.check(group)?;
        self.restore_tables(tables)?;
        for (meta, section) in restored_sections(tables, stream)? {
            let table = self.rows.find_table(&meta.name).expect("the tables have just been made known");
            if self.is_cache {
                self.rows.put_restored(table, group, &section, byte_tables(&mut *self.backend))?;
            } else {
                self.rows.add_dormant(table, group, section)?;
            }
        }
        Ok(())
    }

    /// Makes the tables of a snapshot known although no key group of it is restored, so that they go on to exist.
    ///
    /// Fails when a table does not agree with one of the same name that is known already.
    ///
    /// # Panics
    /// When a state is registered already.
    pub fn restore_tables(&mut self, tables: &[TableMeta]) -> Result<(), StateError> {
        assert!(
            self.rows.tables.iter().all(|table| table.column.is_none()),
            "state is restored before the first state is registered"
        );
        for (number, meta) in tables.iter().enumerate() {
            if tables[..number].iter().any(|other| other.name == meta.name) {
                return Err(StateError::Damaged(format!("state {:?} is in a snapshot twice", meta.name)));
            }
            if let Some(table) = self.rows.find_table(&meta.name) {
                self.rows.tables[usize::from(table.0)].meta.check_usable_as(meta)?;
            }
        }
        for meta in tables {
            if self.rows.find_table(&meta.name).is_none() {
                self.add_table(meta.clone())?;
            }
        }
        Ok(())
    }
}
