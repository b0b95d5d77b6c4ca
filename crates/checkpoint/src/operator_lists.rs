//! Redistribution of the operator lists of one operator: split lists are dealt, union lists copied.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_state_api::{OperatorList, Redistribution, Schema};

/// Takes the list `name` out of every subtask; its elements in the order of the subtasks, and their schema if there is
/// such a list. An error is the name, if the subtasks do not agree on the schema.
pub(crate) fn take_list(
    subtasks: &mut [Vec<OperatorList>],
    name: &str,
) -> Result<(Option<Schema>, Vec<Bytes>), String> {
    let mut elements = Vec::new();
    let mut schema = None;
    for lists in subtasks {
        for list in lists.extract_if(.., |list| list.name == name) {
            if *schema.get_or_insert_with(|| list.schema.clone()) != list.schema {
                return Err(name.to_owned());
            }
            elements.extend(list.elements);
        }
    }
    Ok((schema, elements))
}

/// The lists of `parallelism` new subtasks, from those of the old ones. An error is the name of a list on which the old
/// subtasks do not agree.
///
/// Every new subtask gets every list, be it empty: that a list was restored is something a function may ask.
pub(crate) fn redistribute(old: Vec<Vec<OperatorList>>, parallelism: usize) -> Result<Vec<Vec<OperatorList>>, String> {
    let is_rescaled = old.len() != parallelism;
    // By name: for each old subtask that has the list, its index and the list.
    let mut names: BTreeMap<String, Vec<(usize, OperatorList)>> = BTreeMap::new();
    for (subtask, lists) in old.into_iter().enumerate() {
        for list in lists {
            names.entry(list.name.clone()).or_default().push((subtask, list));
        }
    }

    let mut new = vec![Vec::new(); parallelism];
    // Who gets the first element rotates from list to list, or subtask 0 would get the odd element of each.
    let mut first = 0;
    for (name, lists) in names {
        let Some((_, model)) = lists.first() else { continue };
        let model = OperatorList { elements: Vec::new(), ..model.clone() };
        if lists.iter().any(|(_, list)| list.redistribution != model.redistribution || list.schema != model.schema) {
            return Err(name);
        }
        let shares = match model.redistribution {
            Redistribution::Split if is_rescaled => {
                let (shares, next) = deal(elements(lists), parallelism, first);
                first = next;
                shares
            }
            Redistribution::Split => {
                let mut shares = vec![Vec::new(); parallelism];
                for (subtask, list) in lists {
                    shares[subtask].extend(list.elements);
                }
                shares
            }
            Redistribution::Union => vec![elements(lists); parallelism],
            // There is no third kind yet; when there is one, it must not be dealt by accident.
            _ => return Err(name),
        };
        for (lists, elements) in new.iter_mut().zip(shares) {
            lists.push(OperatorList { elements, ..model.clone() });
        }
    }
    Ok(new)
}

fn elements(lists: Vec<(usize, OperatorList)>) -> Vec<Bytes> {
    lists.into_iter().flat_map(|(_, list)| list.elements).collect()
}

/// Consecutive runs of elements, as equal as can be, to the subtasks from `first` on in a circle. Also says who comes
/// next.
fn deal(elements: Vec<Bytes>, parallelism: usize, first: usize) -> (Vec<Vec<Bytes>>, usize) {
    let (share, odd) = (elements.len() / parallelism, elements.len() % parallelism);
    let mut elements = elements.into_iter();
    let mut shares = vec![Vec::new(); parallelism];
    for turn in 0..parallelism {
        let length = share + usize::from(turn < odd);
        shares[(first + turn) % parallelism] = elements.by_ref().take(length).collect();
    }
    (shares, (first + odd) % parallelism)
}
