//! Graphs: operations with dependencies, and executable graphs in a fixed order.

use crate::handles::Handle;
use crate::status::{Result, Status};
use crate::work::Work;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) work: Work,
    /// The nodes that run before it.
    pub(crate) after: BTreeSet<usize>,
    pub(crate) handle: Handle,
    pub(crate) removed: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

/// A graph that can run. It keeps the operations of the graph at the time of its creation.
#[derive(Clone, Debug)]
pub(crate) struct GraphExec {
    /// Operations in execution order, each with the handle of its node.
    pub(crate) works: Vec<(Handle, Work)>,
}

impl Graph {
    /// The nodes in an order that their dependencies permit: the order of creation, as far as possible.
    pub(crate) fn instantiate(&self) -> Result<GraphExec> {
        let mut done: BTreeSet<usize> = (0..self.nodes.len()).filter(|index| self.nodes[*index].removed).collect();
        let mut works = Vec::new();
        while done.len() < self.nodes.len() {
            let ready = |index: &usize| !done.contains(index) && self.nodes[*index].after.is_subset(&done);
            let Some(index) = (0..self.nodes.len()).find(ready) else {
                return Err(Status::InvalidValue.because("the dependencies of the graph form a cycle"));
            };
            works.push((self.nodes[index].handle, self.nodes[index].work.clone()));
            done.insert(index);
        }
        Ok(GraphExec { works })
    }
}

impl GraphExec {
    /// Takes the parameters of another graph of the same shape.
    pub(crate) fn update(&mut self, other: GraphExec) -> Result<()> {
        let same = |(a, b): (&(Handle, Work), &(Handle, Work))| std::mem::discriminant(&a.1) == std::mem::discriminant(&b.1);
        if self.works.len() != other.works.len() || !self.works.iter().zip(&other.works).all(same) {
            return Err(Status::GraphExecUpdateFailure.into());
        }
        for (own, new) in self.works.iter_mut().zip(other.works) {
            own.1 = new.1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(after: &[&[usize]]) -> Graph {
        let node = |(index, after): (usize, &&[usize])| Node {
            work: Work::Free { address: index as u64 },
            after: after.iter().copied().collect(),
            handle: index,
            removed: false,
        };
        Graph { nodes: after.iter().enumerate().map(node).collect() }
    }

    #[test]
    fn dependencies_decide_the_order() {
        let order =
            |graph: &Graph| graph.instantiate().map(|exec| exec.works.iter().map(|(handle, _)| *handle).collect::<Vec<_>>());
        assert_eq!(order(&graph(&[&[2], &[], &[1]])).unwrap(), [1, 2, 0]);
        assert_eq!(order(&graph(&[&[1], &[0]])).unwrap_err().status, Status::InvalidValue);
    }

    #[test]
    fn an_update_needs_the_same_shape() {
        let mut exec = graph(&[&[], &[0]]).instantiate().unwrap();
        assert!(exec.update(graph(&[&[]]).instantiate().unwrap()).is_err());
        exec.update(graph(&[&[], &[0]]).instantiate().unwrap()).unwrap();
    }
}
