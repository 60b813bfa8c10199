//! Handles: numbers that identify the objects of the API. The driver gives each handle to one object only, even after it has
//! removed the object.

use crate::graph::{Graph, GraphExec, Node};
use crate::handle::Handle;
use crate::module::{Function, Library};
use crate::status::{Result, Status};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The first handle. Smaller numbers are the null handle and the default streams.
const FIRST_HANDLE: Handle = 0x1000;
/// Distance between consecutive handles. All handles are multiples of this distance, as addresses of objects would be.
const HANDLE_DISTANCE: Handle = 16;

/// A stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    /// The capture, if operations of the stream become nodes of a graph. `None` if the driver executes the operations.
    pub(crate) capture: Option<Capture>,
}

/// The capture of a stream into a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) graph: Handle,
    /// Whether the client began the capture in this stream. The other streams joined the capture when they waited for an event.
    pub(crate) is_origin: bool,
}

/// An event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// The time of the last record. `None` if no stream has recorded the event.
    pub(crate) recorded_at: Option<Instant>,
    pub(crate) has_timing: bool,
    /// The graph whose capture recorded the event. `None` if no capture recorded it.
    pub(crate) capture_graph: Option<Handle>,
}

/// A memory pool. The driver stores the attributes, but they have no effect, because no allocation uses the pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) attributes: BTreeMap<i32, u64>,
}

/// An object to which a handle refers.
#[derive(Debug)]
pub(crate) enum Object {
    Context { created_by_client: bool },
    Stream(Stream),
    Event(Event),
    Library(Arc<Library>),
    Function(Arc<Function>),
    Graph(Graph),
    GraphNode { graph: Handle, index: usize },
    GraphExec(GraphExec),
    Pool(Pool),
}

/// The table of all objects, by handle.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    objects: BTreeMap<Handle, Object>,
    /// Number of handles that the driver has given to objects so far.
    issued_count: usize,
}

/// Defines functions that return the object of a handle. The functions return an error if the handle refers to another kind of
/// object.
macro_rules! access {
    ($($get:ident, $get_mut:ident: $variant:ident($ty:ty);)*) => {
        $(
            pub(crate) fn $get(&self, handle: Handle) -> Result<&$ty> {
                match self.objects.get(&handle) {
                    Some(Object::$variant(object)) => Ok(object),
                    _ => Err(Status::InvalidHandle.into()),
                }
            }
            #[allow(dead_code, reason = "not every kind of object changes")]
            pub(crate) fn $get_mut(&mut self, handle: Handle) -> Result<&mut $ty> {
                match self.objects.get_mut(&handle) {
                    Some(Object::$variant(object)) => Ok(object),
                    _ => Err(Status::InvalidHandle.into()),
                }
            }
        )*
    };
}

impl Handles {
    /// Adds an object. Returns its handle.
    pub(crate) fn add(&mut self, object: Object) -> Handle {
        let handle = FIRST_HANDLE + HANDLE_DISTANCE * self.issued_count;
        self.issued_count += 1;
        self.objects.insert(handle, object);
        handle
    }

    /// Returns the object of a handle.
    pub(crate) fn get(&self, handle: Handle) -> Result<&Object> {
        self.objects.get(&handle).ok_or_else(|| Status::InvalidHandle.into())
    }

    /// Removes the object of a handle and returns the object. Returns an error if `is_kind` rejects the object.
    pub(crate) fn remove(&mut self, handle: Handle, is_kind: impl Fn(&Object) -> bool) -> Result<Object> {
        if !is_kind(self.get(handle)?) {
            return Err(Status::InvalidHandle.into());
        }
        Ok(self.objects.remove(&handle).expect("just found"))
    }

    /// Keeps only the objects that `keep` accepts. Removes, for example, the kernels of an unloaded module.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Object) -> bool) {
        self.objects.retain(|_, object| keep(object));
    }

    /// Returns all handles with their objects, in the order of the handles.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Handle, &Object)> {
        self.objects.iter().map(|(handle, object)| (*handle, object))
    }

    access! {
        stream, stream_mut: Stream(Stream);
        event, event_mut: Event(Event);
        library, library_mut: Library(Arc<Library>);
        function, function_mut: Function(Arc<Function>);
        graph, graph_mut: Graph(Graph);
        graph_exec, graph_exec_mut: GraphExec(GraphExec);
        pool, pool_mut: Pool(Pool);
    }

    /// For the handle of a node, returns the handle of its graph, the index of the node in the graph, and the node.
    pub(crate) fn node(&self, handle: Handle) -> Result<(Handle, usize, &Node)> {
        let Object::GraphNode { graph, index } = self.get(handle)? else { return Err(Status::InvalidHandle.into()) };
        let node = self.graph(*graph)?.nodes.get(*index).ok_or(Status::InvalidHandle)?;
        Ok((*graph, *index, node))
    }
}
