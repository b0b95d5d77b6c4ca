//! What can go wrong with state. The kind tells the caller what to do.

use crate::{KeyGroup, KeyGroupRange, KeyHashError, Schema, StorageError};

/// An error of keyed or operator state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The handle was never made from a descriptor. A mistake in the program.
    #[error("{handle} was used before `initialize_state` bound it to a descriptor")]
    Unbound {
        /// Its type, as far as it is known: it has no name.
        handle: String,
    },
    /// The handle was made by another store. A mistake in the program.
    #[error("{handle} was used with a store that did not make it")]
    ForeignHandle {
        /// Its type, as far as it is known.
        handle: String,
    },
    /// Keyed state was asked for where no key is current.
    #[error("state {state:?} was accessed while no key is current")]
    NoCurrentKey {
        /// The state.
        state: String,
    },
    /// Something was asked of the current key where no key is current.
    #[error("no key is current")]
    NoKey,
    /// A record was to be selected that the resolved batch does not have: a key was made current in between, which ends
    /// the batch.
    #[error("record {index} is not one of the {length} of the resolved batch: was a key made current in between?")]
    NotInBatch {
        /// The record.
        index: usize,
        /// How many records the batch has.
        length: usize,
    },
    /// State in namespaces was accessed where no namespace is current.
    #[error("state {state:?} was accessed while no namespace of its type is current")]
    NoCurrentNamespace {
        /// The state.
        state: String,
    },
    /// A state is in namespaces of another type, or in none.
    #[error("state {state:?} is not in namespaces of type {namespace}")]
    OtherNamespaceType {
        /// The state.
        state: String,
        /// What the type is called that was asked for.
        namespace: &'static str,
    },
    /// No state is in namespaces of a type.
    #[error("no state is in namespaces of type {namespace}")]
    NoSuchNamespaces {
        /// What the type is called.
        namespace: &'static str,
    },
    /// An earlier call of the backend has failed, so that nobody knows what it holds.
    #[error(
        "a call of the state backend has failed before: its state is not known, and no snapshot of it can be taken"
    )]
    Failed,
    /// Namespaces of a state were to be merged whose kind cannot be.
    #[error("state {state:?} is {kind}, and its namespaces cannot be merged")]
    NotMergeable {
        /// The state.
        state: String,
        /// Its kind.
        kind: crate::StateKind,
    },
    /// The function of a reducing, aggregating or folding state failed. The state is as it was.
    #[error("the function of state {state:?} failed")]
    Function {
        /// The state.
        state: String,
        /// What it says.
        #[source]
        source: crate::BoxedError,
    },
    /// Keyed state was asked for in an operator that has no key.
    #[error("{asked_for} needs a key, and operator {operator:?} is not on a keyed stream: put a `key_by` before it")]
    NotKeyed {
        /// What was asked for.
        asked_for: String,
        /// The operator.
        operator: String,
    },
    /// An operator registers, or is restored with, more states than there are numbers for.
    #[error("an operator cannot have more than 65,536 keyed states, nor more than 65,536 operator states")]
    TooManyStates,
    /// A raw stream was used in a way that it cannot be.
    #[error(transparent)]
    RawStream(#[from] crate::RawStreamError),
    /// An operator was given state that it cannot take: another kind of operator had its uid.
    #[error("the checkpoint has state under this uid that the operator cannot take: {}; was the uid another operator's?", states.join(", "))]
    NotTaken {
        /// The states.
        states: Vec<String>,
    },
    /// The name is empty or blank.
    #[error("{name:?} is not a name for a state: it is blank")]
    BlankName {
        /// The name.
        name: String,
    },
    /// The name is one that the runtime uses itself: for timers, or one of [`OperatorState::RESERVED_NAMES`](crate::OperatorState::RESERVED_NAMES).
    #[error("{name:?} is not a name for a state: the runtime uses it itself")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// A name is already taken by a state of another kind.
    #[error("state {state:?} is registered or restored as {existing} and cannot be used as {requested}")]
    OtherKind {
        /// The state.
        state: String,
        /// Its kind so far.
        existing: crate::StateKind,
        /// The kind asked for.
        requested: crate::StateKind,
    },
    /// A name is already taken by operator state that is handed out in another way.
    #[error("state {state:?} is registered or restored as {existing} and cannot be used as {requested}")]
    OtherRedistribution {
        /// The state.
        state: String,
        /// How it is handed out so far.
        existing: crate::Redistribution,
        /// How it was asked for.
        requested: crate::Redistribution,
    },
    /// A name is already taken by a state of another type, or was restored with another schema.
    #[error("{}", other_schema(state, part, existing, requested))]
    OtherSchema {
        /// The state.
        state: String,
        /// Which part of it: key, namespace, map key, value, or element of an operator's list.
        part: &'static str,
        /// The schema that the existing data has.
        existing: Box<Schema>,
        /// The schema asked for.
        requested: Box<Schema>,
    },
    /// A name is already registered with another Rust type of the same schema.
    #[error("state {state:?} is registered with another type of the same schema; use one descriptor for it")]
    OtherType {
        /// The state.
        state: String,
    },
    /// No schema could be found for a type by looking at its `Deserialize`.
    #[error("state {state:?}: no schema could be traced for the {part} ({reason}); {}", advice(part))]
    Untraceable {
        /// The state.
        state: String,
        /// Which part of it.
        part: &'static str,
        /// Why.
        reason: String,
    },
    /// A value does not survive being written and read again. Nothing was stored; or, where a snapshot has found a map key
    /// that is read as another one, the snapshot was not written.
    #[error("state {state:?}: a value does not survive serialisation: {reason}")]
    NotRoundTrip {
        /// The state.
        state: String,
        /// What differed, and where it often comes from.
        reason: String,
    },
    /// A key or a namespace is not read as it was written, as when two of them are written as the same bytes. Nothing was
    /// stored; or, where a snapshot has found it, the snapshot was not written.
    #[error("a {what} does not survive serialisation: {reason}; every {what} must be read as it was written")]
    KeyNotRoundTrip {
        /// Which of the two.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A value could not be written or read.
    #[error("a value of state {state:?} could not be written or read")]
    Serializer {
        /// The state.
        state: String,
        /// The cause.
        #[source]
        source: crate::SerializerError,
    },
    /// A serializer panicked while a snapshot was written, or who was given what it wrote.
    #[error("a snapshot could not be written: {whose} panicked: {message}")]
    Panicked {
        /// Who panicked.
        whose: String,
        /// The message of the panic.
        message: String,
    },
    /// A key has no stable hash.
    #[error(transparent)]
    KeyHash(#[from] KeyHashError),
    /// A key does not belong to this subtask: its hash is not stable.
    #[error("key group {group} is not in {range}, the range of this subtask: is the key's `Serialize` deterministic?")]
    ForeignKeyGroup {
        /// The key's group.
        group: KeyGroup,
        /// The range that this subtask owns.
        range: KeyGroupRange,
    },
    /// The keys of the operator have another type.
    #[error("the keys of this operator are not of type {key}")]
    OtherKeyType {
        /// What the type is called that was asked for.
        key: &'static str,
    },
    /// Restored bytes cannot be understood.
    #[error("restored state is damaged: {0}")]
    Damaged(String),
    /// The backend itself failed.
    #[error("the state backend failed")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The checkpoint storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A handle of a type, in a message: what it is called without the paths.
pub(crate) fn handle_of<H>() -> String {
    let name = std::any::type_name::<H>();
    let parts = name.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    let short: String = parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect();
    format!("a handle `{short}`")
}

/// A handle of which only the slot is known.
pub(crate) fn any_handle() -> String {
    "a state handle".to_owned()
}

/// All states of an operator have one key, so that it is not the matter of the state in which it was found out first.
fn other_schema(state: &str, part: &str, existing: &Schema, requested: &Schema) -> String {
    if part == "key" {
        return format!(
            "the key of the operator has schema {requested}, but its existing state was written with {existing}; a key \
             cannot change: keep its type, or start anew with another name for the job"
        );
    }
    format!(
        "state {state:?}: the {part} has schema {requested}, but a state of this name is registered or was written with \
         {existing}; schemas cannot change yet, and two states need two names: keep the type, begin a new state under \
         another name, or start anew with another name for the job"
    )
}

/// What helps where a schema cannot be traced.
fn advice(part: &str) -> &'static str {
    match part {
        "value" | "element" => "name one with the descriptor's `opaque_schema(name, version)`",
        "map key" | "map value" => "name one with the descriptor's `opaque_key_schema` or `opaque_value_schema`",
        _ => "use a type whose `Deserialize` can be traced, such as a number, a string or a plain struct of them",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(part: &'static str) -> String {
        let (existing, requested) = (Schema::trace::<u64>().unwrap(), Schema::trace::<String>().unwrap());
        let state = "_timer_state/event_user-timers".to_owned();
        StateError::OtherSchema { state, part, existing: Box::new(existing), requested: Box::new(requested) }
            .to_string()
    }

    #[test]
    fn a_changed_key_is_told_of_the_operator_and_not_of_a_state() {
        let text = changed("key");
        assert!(
            text.starts_with(
                "the key of the operator has schema str, but its existing state was written with u64; a key cannot change"
            ),
            "{text}"
        );
        assert!(!text.contains("timer"), "{text}");
    }

    #[test]
    fn a_changed_schema_comes_with_what_can_be_done() {
        let text = changed("value");
        assert!(text.starts_with("state \"_timer_state/event_user-timers\": the value has schema str, but"), "{text}");
        assert!(text.ends_with("or start anew with another name for the job"), "{text}");
    }

    #[test]
    fn a_handle_is_told_by_its_type_without_the_paths() {
        let handle = handle_of::<crate::MapState<std::string::String, Vec<(u64, Option<StateError>)>>>();
        assert_eq!(handle, "a handle `MapState<String, Vec<(u64, Option<StateError>)>>`");
        let unbound = StateError::Unbound { handle };
        assert!(unbound.to_string().starts_with("a handle `MapState<"), "{unbound}");
    }
}
