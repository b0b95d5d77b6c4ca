//! What the tracer has seen so far: a graph of the parts of a type, and the way to what it has not seen.

use std::any::TypeId;
use std::collections::BTreeMap;

use super::samples::SAMPLES;

/// Parts that a tuple, or a struct, can have at most.
const PARTS_MAX: usize = 1 << 17;
/// Parts of a type that are told apart: a type with more is not written by hand, or never ends.
const NODES_MAX: usize = 1 << 16;
/// Height of what has no finite value, distance of what leads to nothing new.
const INFINITE: u32 = u32::MAX;

pub(super) type NodeId = usize;

/// What a `Deserialize` asked for; names of types are left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Request {
    Primitive(&'static str),
    Option,
    Sequence,
    Map,
    Tuple(usize),
    /// A unit, newtype or tuple struct.
    TupleStruct(usize),
    Struct(&'static [&'static str]),
    Enum(&'static [&'static str]),
}

/// Who asked. Of a visitor without bytes of its own the type decides everything that it will ever ask for, so it is
/// the same part of the type wherever it is met. One with bytes may ask for anything, so every place has its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    id: TypeId,
    is_stateless: bool,
}

impl Asker {
    pub(super) fn of<V>() -> Self {
        Self { id: typeid::of::<V>(), is_stateless: size_of::<V>() == 0 }
    }

    /// Of primitives, which nothing can hide behind.
    pub(super) fn anyone() -> Self {
        Self { id: TypeId::of::<()>(), is_stateless: true }
    }
}

/// What stands between the brackets of a node or of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Parts(usize),
    Fields(&'static [&'static str]),
}

impl Form {
    fn parts(self) -> usize {
        match self {
            Self::Parts(parts) => parts,
            Self::Fields(names) => names.len(),
        }
    }
}

/// One part, and the number of the sample that is shown to it; 0: what is shown to the whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    pub(super) child: Option<NodeId>,
    pub(super) samples: usize,
}

/// What a node holds in one of its cases: an enum has one per variant, every other node but a primitive has one.
#[derive(Debug, Default)]
pub(super) struct Branch {
    pub(super) form: Option<Form>,
    pub(super) slots: Vec<Slot>,
    /// It was read to its end, and so many parts were taken.
    read: Option<usize>,
    /// With fewer fields than names some are aliases: for each name the field that takes it, once that is known.
    owners: Vec<Option<&'static str>>,
    /// What the index of the variant was read as.
    by_index: Option<String>,
    /// The variant's name was tried too, or need not be.
    is_name_tried: bool,
}

impl Branch {
    fn is_pending(&self) -> bool {
        self.read.is_none() || !self.is_name_tried || self.owners.contains(&None)
    }

    /// The names of the fields, in the order in which they are written; `None` if that is not known.
    pub(super) fn fields(&self) -> Option<Vec<&'static str>> {
        let (Some(Form::Fields(names)), Some(read)) = (self.form, self.read) else { return None };
        if read == names.len() {
            return Some(names.to_vec());
        }
        let mut fields = Vec::new();
        for owner in &self.owners {
            let owner = (*owner)?;
            if !fields.contains(&owner) {
                fields.push(owner);
            }
        }
        (fields.len() == read).then_some(fields)
    }

    /// The parts, if all of them are known.
    pub(super) fn children(&self) -> Option<Vec<NodeId>> {
        self.slots.iter().take(self.read?).map(|slot| slot.child).collect()
    }
}

#[derive(Debug)]
pub(super) struct Node {
    asker: TypeId,
    pub(super) request: Request,
    pub(super) branches: Vec<Branch>,
}

/// Where a part was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Part {
        node: NodeId,
        branch: usize,
        slot: usize,
    },
    /// A field that was found by one of its names: which of the parts it is, is not known.
    Aside,
}

/// What to hand out where there is a choice.
#[derive(Debug, Clone, Copy)]
pub(super) enum Choice {
    Nothing,
    /// A branch, and the slot that leads on to something new.
    Branch(usize, Option<usize>),
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    shared: BTreeMap<(TypeId, Request), NodeId>,
    root: Slot,
    aside: Slot,
    /// Counts everything that was learned: a pass that adds nothing is the last.
    changes: u64,
    /// For each node the steps to something new, as of the start of the pass.
    distances: Vec<u32>,
    /// For each node the height of its smallest value; what has not been seen counts as nothing. With `changes` then.
    heights: (u64, Vec<u32>),
}

impl Graph {
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node]
    }

    pub(super) fn branch(&self, node: NodeId, branch: usize) -> &Branch {
        &self.nodes[node].branches[branch]
    }

    pub(super) fn root(&self) -> Option<NodeId> {
        self.root.child
    }

    pub(super) fn slot(&self, place: Place) -> &Slot {
        match place {
            Place::Root => &self.root,
            Place::Aside => &self.aside,
            Place::Part { node, branch, slot } => &self.nodes[node].branches[branch].slots[slot],
        }
    }

    fn slot_mut(&mut self, place: Place) -> &mut Slot {
        match place {
            Place::Root => &mut self.root,
            Place::Aside => &mut self.aside,
            Place::Part { node, branch, slot } => &mut self.nodes[node].branches[branch].slots[slot],
        }
    }

    /// Records what was asked for at a place, or says why it cannot be.
    pub(super) fn enter(&mut self, place: Place, asker: Asker, request: Request) -> Result<NodeId, &'static str> {
        let current = if place == Place::Aside { None } else { self.slot(place).child };
        let known = if asker.is_stateless {
            self.shared.get(&(asker.id, request.clone())).copied()
        } else {
            current.filter(|node| self.nodes[*node].asker == asker.id && self.nodes[*node].request == request)
        };
        let node = known.unwrap_or_else(|| self.add(asker, request));
        if current.is_some_and(|current| current != node) {
            return Err("what it reads here depends on what it has read before");
        }
        if self.nodes.len() > NODES_MAX {
            return Err("there is no end to the parts of the type");
        }
        if current.is_none() {
            self.slot_mut(place).child = Some(node);
            self.changes += 1;
        }
        Ok(node)
    }

    fn add(&mut self, asker: Asker, request: Request) -> NodeId {
        let node = self.nodes.len();
        let branches = match &request {
            Request::Primitive(_) => Vec::new(),
            Request::Enum(variants) => variants.iter().map(|_| Branch::default()).collect(),
            _ => vec![Branch { is_name_tried: true, ..Branch::default() }],
        };
        if asker.is_stateless {
            self.shared.insert((asker.id, request.clone()), node);
        }
        self.nodes.push(Node { asker: asker.id, request, branches });
        node
    }

    /// Records the form of a branch; false if it was another before, or is too large.
    pub(super) fn form(&mut self, node: NodeId, branch: usize, form: Form) -> bool {
        let branch = &mut self.nodes[node].branches[branch];
        if branch.form.is_none() && form.parts() <= PARTS_MAX {
            branch.form = Some(form);
            branch.slots = vec![Slot::default(); form.parts()];
            self.changes += 1;
        }
        branch.form == Some(form)
    }

    /// Records that a branch was read to its end; false if other parts were taken than the form has.
    pub(super) fn complete(&mut self, node: NodeId, branch: usize, read: usize) -> bool {
        let branch = &mut self.nodes[node].branches[branch];
        if branch.read.is_none() {
            branch.read = Some(read);
            if let Some(Form::Fields(names)) = branch.form
                && read < names.len()
            {
                branch.owners = vec![None; names.len()];
            }
            self.changes += 1;
        }
        let parts = branch.form.map_or(0, Form::parts);
        branch.read == Some(read) && (read == parts || matches!(branch.form, Some(Form::Fields(_))))
    }

    /// A name of which it is not known to which field it belongs.
    pub(super) fn unowned(&self, node: NodeId, branch: usize) -> Option<usize> {
        self.branch(node, branch).owners.iter().position(Option::is_none)
    }

    pub(super) fn own(&mut self, node: NodeId, branch: usize, name: usize, owner: &'static str) {
        self.nodes[node].branches[branch].owners[name] = Some(owner);
        self.aside.samples = 0;
        self.changes += 1;
    }

    /// Whether a variant is to be asked for by its name, because its index has been tried.
    pub(super) fn wants_name(&self, node: NodeId, branch: usize) -> bool {
        let branch = self.branch(node, branch);
        branch.by_index.is_some() && !branch.is_name_tried
    }

    /// Records as what a variant was read, by name or by index; false if the two differ.
    pub(super) fn identify(&mut self, node: NodeId, branch: usize, is_by_name: bool, variant: String) -> bool {
        let branch = &mut self.nodes[node].branches[branch];
        if is_by_name {
            branch.is_name_tried = true;
            self.changes += 1;
        } else if branch.by_index.is_none() {
            branch.by_index = Some(variant);
            self.changes += 1;
            return true;
        }
        branch.by_index.as_ref() == Some(&variant)
    }

    /// The enum knows its variants by index only: there is nothing to compare.
    pub(super) fn skip_name(&mut self, node: NodeId, branch: usize) {
        self.nodes[node].branches[branch].is_name_tried = true;
        self.changes += 1;
    }

    /// The next sample for a place; false at the end of the list.
    pub(super) fn next_sample(&mut self, place: Place) -> bool {
        let slot = self.slot_mut(place);
        slot.samples += 1;
        let is_more = slot.samples < SAMPLES.len();
        self.changes += 1;
        is_more
    }

    /// Forgets the part that was read aside last.
    pub(super) fn clear_aside(&mut self) {
        self.aside.child = None;
    }

    /// Looks for what has not been seen; false if there is nothing.
    pub(super) fn measure(&mut self) -> bool {
        self.distances = self.relax(|graph, node, distances| {
            let node = &graph.nodes[node];
            if node.branches.iter().any(Branch::is_pending) {
                return 0;
            }
            let slots = node.branches.iter().flat_map(|branch| &branch.slots);
            let children = slots.filter_map(|slot| slot.child);
            children.map(|child| distances[child]).min().unwrap_or(INFINITE).saturating_add(1)
        });
        self.root.child.is_none_or(|root| self.distances[root] < INFINITE)
    }

    fn height(&self, branch: &Branch, heights: &[u32]) -> u32 {
        branch.slots.iter().filter_map(|slot| slot.child).map(|child| heights[child]).max().unwrap_or(0)
    }

    fn heights(&mut self) -> &[u32] {
        if self.heights.0 != self.changes {
            let heights = self.relax(|graph, node, heights| match &graph.nodes[node] {
                Node { request: Request::Option | Request::Sequence | Request::Map, .. } => 1,
                Node { request: Request::Primitive(_), .. } => 1,
                Node { branches, .. } => {
                    let heights = branches.iter().map(|branch| graph.height(branch, heights));
                    heights.min().unwrap_or(INFINITE).saturating_add(1)
                }
            });
            self.heights = (self.changes, heights);
        }
        &self.heights.1
    }

    /// Lowers a number per node until nothing changes; the bound on the rounds is the longest path.
    fn relax(&self, number: impl Fn(&Self, NodeId, &[u32]) -> u32) -> Vec<u32> {
        let mut numbers = vec![INFINITE; self.nodes.len()];
        for _ in 0..self.nodes.len() {
            let mut is_changed = false;
            for node in 0..self.nodes.len() {
                let new = number(self, node, &numbers);
                is_changed |= new < numbers[node];
                numbers[node] = new;
            }
            if !is_changed {
                break;
            }
        }
        numbers
    }

    /// Chooses what to hand out: on the way to something new if the pass is `seeking` here, else the smallest value
    /// that can be. `None` if there is no finite value.
    ///
    /// Both go down with every step: the distance until the new thing is met, the height until the value ends, for
    /// what has not been seen counts as nothing and is therefore seen first. So a value of a recursive type ends.
    pub(super) fn choose(&mut self, node: NodeId, is_seeking: bool, is_filled: bool, open: &[Place]) -> Option<Choice> {
        if is_seeking {
            if let Some(branch) = self.nodes[node].branches.iter().position(Branch::is_pending) {
                return Some(Choice::Branch(branch, None));
            }
            if let Some((branch, slot)) = self.toward(node) {
                return Some(Choice::Branch(branch, Some(slot)));
            }
        }
        if matches!(self.nodes[node].request, Request::Option | Request::Sequence | Request::Map) {
            let is_fillable = is_filled && self.is_fillable(node, open);
            return Some(if is_fillable { Choice::Branch(0, None) } else { Choice::Nothing });
        }
        self.heights();
        let heights = &self.heights.1;
        let branches = self.nodes[node].branches.iter().enumerate();
        let smallest = branches.min_by_key(|(_, branch)| self.height(branch, heights))?;
        (self.height(smallest.1, heights) < INFINITE).then_some(Choice::Branch(smallest.0, None))
    }

    fn toward(&self, node: NodeId) -> Option<(usize, usize)> {
        let distance = |node: NodeId| self.distances.get(node).copied().unwrap_or(INFINITE);
        let branches = self.nodes[node].branches.iter().enumerate();
        let slots = branches.flat_map(|(at, branch)| branch.slots.iter().enumerate().map(move |slot| (at, slot)));
        let children = slots.filter_map(|(branch, (slot, part))| Some((distance(part.child?), branch, slot)));
        let (nearest, branch, slot) = children.min()?;
        (nearest < distance(node)).then_some((branch, slot))
    }

    /// Whether all that a collection holds is new, or has a finite value and is not being read already.
    fn is_fillable(&mut self, node: NodeId, open: &[Place]) -> bool {
        self.heights();
        let mut children = self.nodes[node].branches[0].slots.iter().filter_map(|slot| slot.child);
        let is_open = |child| open.iter().any(|place| self.slot(*place).child == Some(child));
        children.all(|child| self.heights.1[child] < INFINITE && !is_open(child))
    }
}
