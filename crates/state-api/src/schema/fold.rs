//! From the graph of a type to its schema. Parts that hold the same are one, whatever types they came from, and
//! containers are numbered as they are met from the root: two types have equal schemas exactly if every value of the
//! one has the bytes, and the names, of a value of the other.

use std::collections::BTreeMap;
use std::mem;

use super::graph::{Branch, Form, Graph, NodeId, Request};
use super::{Container, Schema, Shape};

/// A part of a type without what it holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Primitive(&'static str),
    Option,
    Sequence,
    Map,
    Tuple,
    Container(Content),
    Enum(Vec<(&'static str, Content)>),
}

/// A container, or the content of a variant: with names of fields, or a number of parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Fields(Vec<&'static str>),
    Parts(usize),
}

/// Makes the schema; fails if any part of the graph is unknown.
pub(super) fn fold(graph: &Graph) -> Result<Schema, String> {
    let unknown = || "part of the type was never seen".to_owned();
    let root = graph.root().ok_or_else(unknown)?;
    let parts = parts(graph, root).ok_or_else(unknown)?;
    let classes = classes(&parts);
    let mut kinds = BTreeMap::new();
    for (node, (label, children)) in &parts {
        kinds.insert(classes[node], (label, children.iter().map(|child| classes[child]).collect::<Vec<_>>()));
    }
    let mut fold = Fold { kinds, seen: BTreeMap::new(), containers: Vec::new(), open: Vec::new() };
    let root = fold.shape(classes[&root])?;
    let containers = fold.containers.into_iter().flatten().collect();
    Ok(Schema::Structural { root, containers })
}

type Parts = BTreeMap<NodeId, (Label, Vec<NodeId>)>;

/// What can be reached from the root; `None` if something is unknown.
fn parts(graph: &Graph, root: NodeId) -> Option<Parts> {
    let mut parts = BTreeMap::new();
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        if parts.contains_key(&node) {
            continue;
        }
        let branches = &graph.node(node).branches;
        let label = match &graph.node(node).request {
            Request::Primitive(name) => Label::Primitive(name),
            Request::Option => Label::Option,
            Request::Sequence => Label::Sequence,
            Request::Map => Label::Map,
            Request::Tuple(_) => Label::Tuple,
            Request::TupleStruct(_) | Request::Struct(_) => Label::Container(content(branches.first()?)?),
            Request::Enum(names) => {
                let variants = names.iter().zip(branches);
                Label::Enum(variants.map(|(name, branch)| Some((*name, content(branch)?))).collect::<Option<_>>()?)
            }
        };
        let children = branches.iter().map(Branch::children).collect::<Option<Vec<_>>>()?.concat();
        waiting.extend(&children);
        parts.insert(node, (label, children));
    }
    Some(parts)
}

fn content(branch: &Branch) -> Option<Content> {
    match branch.form? {
        Form::Fields(_) => Some(Content::Fields(branch.fields()?)),
        Form::Parts(parts) => Some(Content::Parts(parts)),
    }
}

/// Puts parts into one class that no path of labels tells apart: all in one at first, then divided by their labels and
/// the classes of what they hold until nothing changes.
fn classes(parts: &Parts) -> BTreeMap<NodeId, usize> {
    let mut classes: BTreeMap<NodeId, usize> = parts.keys().map(|node| (*node, 0)).collect();
    let mut count = 1;
    for _ in 0..parts.len() {
        let mut numbers = BTreeMap::new();
        let mut next = BTreeMap::new();
        for (node, (label, children)) in parts {
            let held: Vec<usize> = children.iter().map(|child| classes[child]).collect();
            let number = numbers.len();
            next.insert(*node, *numbers.entry((label, held)).or_insert(number));
        }
        classes = next;
        if mem::replace(&mut count, numbers.len()) == numbers.len() {
            break;
        }
    }
    classes
}

struct Fold<'a> {
    kinds: BTreeMap<usize, (&'a Label, Vec<usize>)>,
    /// Index of the container of a class.
    seen: BTreeMap<usize, u32>,
    /// `None` while the container is being made: a type may refer to itself.
    containers: Vec<Option<Container>>,
    /// Classes being made that are no containers.
    open: Vec<usize>,
}

impl Fold<'_> {
    fn shape(&mut self, class: usize) -> Result<Shape, String> {
        let (label, held) = self.kinds[&class].clone();
        if matches!(label, Label::Container(_) | Label::Enum(_)) {
            return self.container(class, label, &held);
        }
        if self.open.contains(&class) {
            return Err("it holds itself without a struct or an enum between".to_owned());
        }
        self.open.push(class);
        let shape = match label {
            Label::Primitive(name) => Shape::Primitive((*name).to_owned()),
            Label::Option => Shape::Option(Box::new(self.shape(held[0])?)),
            Label::Sequence => Shape::Sequence(Box::new(self.shape(held[0])?)),
            Label::Map => Shape::Map(Box::new(self.shape(held[0])?), Box::new(self.shape(held[1])?)),
            _ if held.len() > 1 && held.iter().all(|part| *part == held[0]) => {
                Shape::Array(Box::new(self.shape(held[0])?), held.len() as u64)
            }
            _ => Shape::Tuple(self.shapes(&held)?),
        };
        self.open.pop();
        Ok(shape)
    }

    fn shapes(&mut self, classes: &[usize]) -> Result<Vec<Shape>, String> {
        classes.iter().map(|class| self.shape(*class)).collect()
    }

    fn container(&mut self, class: usize, label: &Label, held: &[usize]) -> Result<Shape, String> {
        if let Some(index) = self.seen.get(&class) {
            return Ok(Shape::Container(*index));
        }
        let index = self.containers.len();
        self.seen.insert(class, index as u32);
        self.containers.push(None);
        let open = mem::take(&mut self.open);
        let container = match label {
            Label::Container(content) => self.content(content, held)?,
            Label::Enum(variants) => {
                let mut rest = held;
                let mut list = Vec::new();
                for (index, (name, content)) in variants.iter().enumerate() {
                    let (held, others) = rest.split_at(content.parts());
                    rest = others;
                    list.push((index as u32, (*name).to_owned(), Box::new(self.content(content, held)?)));
                }
                Container::Enum(list)
            }
            _ => return Err("part of the type was taken for a container".to_owned()),
        };
        self.open = open;
        self.containers[index] = Some(container);
        Ok(Shape::Container(index as u32))
    }

    fn content(&mut self, content: &Content, held: &[usize]) -> Result<Container, String> {
        let shapes = self.shapes(held)?;
        Ok(match content {
            Content::Fields(names) => {
                Container::Struct(names.iter().map(|name| (*name).to_owned()).zip(shapes).collect())
            }
            Content::Parts(_) => Container::TupleStruct(shapes),
        })
    }
}

impl Content {
    fn parts(&self) -> usize {
        match self {
            Self::Fields(names) => names.len(),
            Self::Parts(parts) => *parts,
        }
    }
}
