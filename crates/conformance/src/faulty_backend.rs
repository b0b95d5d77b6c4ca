//! A state backend that fails on command, as if the disk beneath it had gone.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_state_api::{
    At, ByteTables, CheckpointId, ConfigError, ConfigNotices, Configuration, Entry, EntryVisitor, FrozenState,
    KeyGroup, KeyedBackendParameters, KeyedStateBackend, Prefix, Residence, SnapshotRequest, StateBackend, StateError,
    TableId, TableMeta, TypedRows,
};

/// Whether a [`FaultyBackend`] fails. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Outage {
    lasts: Arc<AtomicBool>,
}

impl Outage {
    /// Begins an outage, or ends it.
    pub fn set(&self, lasts: bool) {
        self.lasts.store(lasts, Ordering::SeqCst);
    }

    fn check(&self, operation: &'static str) -> Result<(), StateError> {
        if self.lasts.load(Ordering::SeqCst) {
            return Err(StateError::Backend(format!("injected outage: it could not {operation}").into()));
        }
        Ok(())
    }
}

/// A state backend around another. During an outage every access to its bytes and its snapshots fails, also in the
/// middle of a scan, and has no effect. Backends that keep rows fail only when they freeze.
pub struct FaultyBackend {
    inner: Box<dyn StateBackend>,
    outage: Outage,
}

impl FaultyBackend {
    /// Wraps a backend; `outage` is the handle to make it fail.
    pub fn new(inner: impl StateBackend + 'static, outage: Outage) -> Self {
        Self { inner: Box::new(inner), outage }
    }
}

impl fmt::Debug for FaultyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyBackend").field("inner", &self.inner).field("outage", &self.outage).finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl StateBackend for FaultyBackend {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        self.outage.check("create a backend")?;
        let inner = self.inner.create_keyed_backend(parameters)?;
        Ok(Box::new(FaultyKeyedBackend { inner, outage: self.outage.clone() }))
    }

    fn configure(
        &self,
        cluster: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn StateBackend>>, ConfigError> {
        let inner = self.inner.configure(cluster, notices)?;
        Ok(inner.map(|inner| Arc::new(Self::new(inner, self.outage.clone())) as _))
    }
}

struct FaultyKeyedBackend {
    inner: Box<dyn KeyedStateBackend>,
    outage: Outage,
}

impl FaultyKeyedBackend {
    fn tables(&mut self, operation: &'static str) -> Result<&mut dyn ByteTables, StateError> {
        self.outage.check(operation)?;
        match self.inner.residence() {
            Residence::Bytes(tables) => Ok(tables),
            Residence::Rows => unreachable!("a backend that keeps rows is not asked for bytes"),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl KeyedStateBackend for FaultyKeyedBackend {
    fn backend_type(&self) -> &'static str {
        self.inner.backend_type()
    }

    fn residence(&mut self) -> Residence<'_> {
        if matches!(self.inner.residence(), Residence::Rows) { Residence::Rows } else { Residence::Bytes(self) }
    }

    fn freeze(&mut self, request: &SnapshotRequest, rows: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        self.outage.check("freeze")?;
        let inner = self.inner.freeze(request, rows)?;
        Ok(Box::new(FaultyFrozen { inner, outage: self.outage.clone() }))
    }

    fn confirmed(&mut self, checkpoint: CheckpointId) {
        self.inner.confirmed(checkpoint);
    }

    fn aborted(&mut self, checkpoint: CheckpointId) {
        self.inner.aborted(checkpoint);
    }

    fn subsumed(&mut self, checkpoint: CheckpointId) {
        self.inner.subsumed(checkpoint);
    }
}

#[deny(clippy::missing_trait_methods)]
impl ByteTables for FaultyKeyedBackend {
    fn open_table(&mut self, table: TableId, meta: &TableMeta) -> Result<(), StateError> {
        self.tables("open a table")?.open_table(table, meta)
    }

    fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError> {
        self.tables("get")?.get(at, out)
    }

    fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError> {
        self.tables("put")?.put(at, value)
    }

    fn remove(&mut self, at: At<'_>) -> Result<(), StateError> {
        self.tables("remove")?.remove(at)
    }

    fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError> {
        let outage = self.outage.clone();
        let mut outcome = Ok(());
        self.tables("scan")?.scan(prefix, &mut |entry| match outage.check("go on with a scan") {
            Ok(()) => visit(entry),
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        })?;
        outcome
    }

    fn prefetch(&mut self, wanted: &[At<'_>]) {
        if let Ok(tables) = self.tables("prefetch") {
            tables.prefetch(wanted);
        }
    }
}

struct FaultyFrozen {
    inner: Box<dyn FrozenState>,
    outage: Outage,
}

#[deny(clippy::missing_trait_methods)]
impl FrozenState for FaultyFrozen {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        self.outage.check("read a snapshot")?;
        let outage = &self.outage;
        self.inner.visit_key_group(group, &mut |entry| {
            outage.check("go on with a snapshot")?;
            visit(entry)
        })
    }
}
