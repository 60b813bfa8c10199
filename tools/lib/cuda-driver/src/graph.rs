//! Graphs: operations with dependencies, and executable graphs, whose operations have a fixed order.

use crate::handle::Handle;
use crate::status::{Result, Status};
use crate::work::Work;
use std::collections::BTreeSet;

/// A node of a graph: an operation and its dependencies.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) work: Work,
    /// Indices of the nodes that must run before this node.
    pub(crate) dependencies: BTreeSet<usize>,
    pub(crate) handle: Handle,
    /// Whether the client has destroyed the node. The node stays in the list, so that the indices of other nodes stay valid.
    pub(crate) removed: bool,
}

/// A graph that a client builds or captures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

/// An executable graph. It contains copies of the operations that the graph contained at its instantiation.
#[derive(Clone, Debug)]
pub(crate) struct GraphExec {
    /// Operations in execution order, each with the handle of its node.
    pub(crate) operations: Vec<(Handle, Work)>,
}

impl Graph {
    /// Returns an executable graph, in which each operation follows its dependencies. If several operations are possible next, the
    /// operation of the node that the client created first comes first.
    pub(crate) fn instantiate(&self) -> Result<GraphExec> {
        let mut done: BTreeSet<usize> = (0..self.nodes.len()).filter(|index| self.nodes[*index].removed).collect();
        let mut operations = Vec::new();
        while done.len() < self.nodes.len() {
            let ready = |index: &usize| !done.contains(index) && self.nodes[*index].dependencies.is_subset(&done);
            let Some(index) = (0..self.nodes.len()).find(ready) else {
                return Err(Status::InvalidValue.because("the dependencies of the graph form a cycle"));
            };
            operations.push((self.nodes[index].handle, self.nodes[index].work.clone()));
            done.insert(index);
        }
        Ok(GraphExec { operations })
    }
}

impl GraphExec {
    /// Replaces all operations by the operations of another graph. Both graphs must have the same kinds of operations in the same
    /// order.
    pub(crate) fn update(&mut self, other: GraphExec) -> Result<()> {
        let same_kind = |(a, b): (&(Handle, Work), &(Handle, Work))| std::mem::discriminant(&a.1) == std::mem::discriminant(&b.1);
        if self.operations.len() != other.operations.len() || !self.operations.iter().zip(&other.operations).all(same_kind) {
            return Err(Status::GraphExecUpdateFailure.into());
        }
        for (own, new) in self.operations.iter_mut().zip(other.operations) {
            own.1 = new.1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph_with(dependencies: &[&[usize]]) -> Graph {
        let node = |(index, dependencies): (usize, &&[usize])| Node {
            work: Work::Free { address: index as u64 },
            dependencies: dependencies.iter().copied().collect(),
            handle: index,
            removed: false,
        };
        Graph { nodes: dependencies.iter().enumerate().map(node).collect() }
    }

    #[test]
    fn dependencies_determine_the_order() {
        let order =
            |graph: &Graph| graph.instantiate().map(|exec| exec.operations.iter().map(|(handle, _)| *handle).collect::<Vec<_>>());
        assert_eq!(order(&graph_with(&[&[2], &[], &[1]])).unwrap(), [1, 2, 0]);
        assert_eq!(order(&graph_with(&[&[1], &[0]])).unwrap_err().status, Status::InvalidValue);
    }

    #[test]
    fn an_update_needs_the_same_shape() {
        let mut exec = graph_with(&[&[], &[0]]).instantiate().unwrap();
        assert!(exec.update(graph_with(&[&[]]).instantiate().unwrap()).is_err());
        exec.update(graph_with(&[&[], &[0]]).instantiate().unwrap()).unwrap();
    }
}
