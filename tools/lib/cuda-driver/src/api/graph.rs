//! Entry points for graphs that clients build or capture, and for executable graphs.

use super::launch::{LaunchShape, prepare_launch};
use super::memory::allocate;
use super::{entry_points, read_from_client, read_list_from_client, write_optional_to_client, write_to_client};
use crate::allocations::MemoryKind;
use crate::driver::{Driver, driver};
use crate::execution::{check_fill, issue};
use crate::graph::{Graph, GraphExec, Node};
use crate::handle::Handle;
use crate::handles::Object;
use crate::status::{Result, Status};
use crate::work::{HostFunction, Work};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_void};

/// `CUDA_KERNEL_NODE_PARAMS_v1`.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelParams {
    function: Handle,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    dynamic_shared_bytes: c_uint,
    params: *const *const c_void,
    extra: *const *const c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`: version 1 with two more fields.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelParams2 {
    version_1: KernelParams,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FillParams {
    to: u64,
    pitch: usize,
    value: c_uint,
    element: c_uint,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct HostParams {
    function: Option<HostFunction>,
    data: *mut c_void,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`. `properties` is the structure `CUmemPoolProps`, which this library does not read.
#[repr(C)]
#[derive(Clone, Copy)]
struct AllocParams {
    properties: [u64; 11],
    access: *const c_void,
    access_count: usize,
    bytes: usize,
    pointer: u64,
}

impl KernelParams {
    /// Returns the launch of a kernel node. If `function` is null, the launch uses `kernel`, a field that only version 2 has.
    fn work(&self, kernel: Handle) -> Result<Work> {
        let kernel = if self.function == 0 { kernel } else { self.function };
        let shape =
            LaunchShape { grid: self.grid, block: self.block, dynamic_shared_bytes: self.dynamic_shared_bytes, cluster: [1; 3] };
        prepare_launch(kernel, shape, self.params, self.extra).map(Work::Launch)
    }
}

impl KernelParams2 {
    /// Returns the launch of a kernel node.
    fn work(&self) -> Result<Work> {
        self.version_1.work(self.kernel)
    }
}

/// Adds a node to a graph. `dependencies` has the handles of the `count` nodes that must run before the new node.
fn add_node(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, work: Work) -> Result<()> {
    let mut tables = driver()?.tables();
    let mut indices = BTreeSet::new();
    for handle in read_list_from_client(dependencies, count)? {
        let (dependency_graph, index, _) = tables.handles.node(handle)?;
        if dependency_graph != graph {
            return Err(Status::InvalidValue.because("a dependency belongs to another graph"));
        }
        indices.insert(index);
    }
    let index = tables.handles.graph(graph)?.nodes.len();
    let handle = tables.handles.add(Object::GraphNode { graph, index });
    tables.handles.graph_mut(graph)?.nodes.push(Node { work, dependencies: indices, handle, removed: false });
    write_to_client(node, handle)
}

/// Creates an executable graph from a graph.
fn instantiate(exec: *mut Handle, graph: Handle) -> Result<()> {
    let mut tables = driver()?.tables();
    let graph_exec = tables.handles.graph(graph)?.instantiate()?;
    write_to_client(exec, tables.handles.add(Object::GraphExec(graph_exec)))
}

/// Adds dependencies between nodes of a graph if `adds` is true; otherwise removes them. Pair `i` makes node `to[i]` depend on
/// `from[i]`.
fn add_or_remove_dependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize, adds: bool) -> Result<()> {
    let mut tables = driver()?.tables();
    tables.handles.graph(graph)?;
    for (from, to) in read_list_from_client(from, count)?.into_iter().zip(read_list_from_client(to, count)?) {
        let (from_graph, from_index, _) = tables.handles.node(from)?;
        let (to_graph, to_index, _) = tables.handles.node(to)?;
        if [from_graph, to_graph] != [graph; 2] {
            return Err(Status::InvalidValue.into());
        }
        let node = &mut tables.handles.graph_mut(graph)?.nodes[to_index];
        let changed = if adds { node.dependencies.insert(from_index) } else { node.dependencies.remove(&from_index) };
        if !changed {
            return Err(Status::InvalidValue.into());
        }
    }
    Ok(())
}

/// Returns the operation of a memset node.
fn fill_work(driver: &Driver, params: *const c_void) -> Result<Work> {
    let FillParams { to, pitch, value, element, width, height } = read_from_client(params.cast())?;
    let (pitch, element_bytes, count, rows) = (pitch as u64, element.into(), width as u64, height as u64);
    check_fill(driver, to, pitch, element_bytes, count, rows)?;
    Ok(Work::Fill { to, pitch, value, element_bytes, count, rows })
}

/// Returns the operation of a host node.
fn host_call_work(params: *const c_void) -> Result<Work> {
    let HostParams { function, data } = read_from_client(params.cast())?;
    Ok(Work::Call { function: function.ok_or(Status::InvalidValue)?, data: data as usize })
}

/// Replaces the operations of an executable graph by the operations of a graph.
fn update_exec(driver: &Driver, exec: Handle, graph: Handle) -> Result<()> {
    let mut tables = driver.tables();
    let new_graph_exec = tables.handles.graph(graph)?.instantiate()?;
    tables.handles.graph_exec_mut(exec)?.update(new_graph_exec)
}

/// Replaces the operation of a node in an executable graph.
fn replace_work(exec: Handle, node: Handle, work: Work) -> Result<()> {
    let mut tables = driver()?.tables();
    let operations = &mut tables.handles.graph_exec_mut(exec)?.operations;
    operations.iter_mut().find(|(operation_node, _)| *operation_node == node).ok_or(Status::InvalidHandle)?.1 = work;
    Ok(())
}

/// Returns the value of `CUgraphNodeType` for an operation.
fn node_type(work: &Work) -> c_int {
    match work {
        Work::Launch(_) => 0,
        Work::Copy { .. } | Work::Copy2D { .. } => 1,
        Work::Fill { .. } => 2,
        Work::Call { .. } => 3,
        Work::Graph(_) => 4,
        Work::Nothing => 5,
        Work::RecordEvent(_) => 7,
        Work::Allocate => 10,
        Work::Free { .. } => 11,
        Work::WriteValue { .. } | Work::WaitValue { .. } => 12,
    }
}

/// Writes handles to the array `places`, whose length is in `count`, and writes the number of written handles to `count`. If
/// `places` is null, writes the number of all handles.
fn write_handles(handles: Vec<Handle>, places: *mut Handle, count: *mut usize) -> Result<()> {
    let capacity = read_from_client(count.cast_const())?;
    if !places.is_null() {
        for (index, handle) in handles.iter().take(capacity).enumerate() {
            write_to_client(places.wrapping_add(index), *handle)?;
        }
    }
    write_to_client(count, if places.is_null() { handles.len() } else { handles.len().min(capacity) })
}

/// Returns the handles of the nodes that `is_selected` accepts and that the client has not destroyed.
fn live_handles(graph: &Graph, is_selected: impl Fn(&Node) -> bool) -> Vec<Handle> {
    graph.nodes.iter().filter(|node| !node.removed && is_selected(node)).map(|node| node.handle).collect()
}

entry_points! {
    fn cuGraphCreate(graph: *mut Handle, _flags: c_uint) {
        write_to_client(graph, driver()?.tables().handles.add(Object::Graph(Graph::default())))
    }
    fn cuGraphDestroy(graph: Handle) {
        let mut tables = driver()?.tables();
        tables.handles.remove(graph, |object| matches!(object, Object::Graph(_)))?;
        tables.handles.retain(|object| !matches!(object, Object::GraphNode { graph: of, .. } if *of == graph));
        Ok(())
    }
    fn cuGraphAddKernelNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const c_void) {
        add_node(node, graph, dependencies, count, read_from_client(params.cast::<KernelParams>())?.work(0)?)
    }
    fn cuGraphAddKernelNode_v2(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const c_void) {
        add_node(node, graph, dependencies, count, read_from_client(params.cast::<KernelParams2>())?.work()?)
    }
    fn cuGraphAddMemsetNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const c_void, _context: Handle) {
        add_node(node, graph, dependencies, count, fill_work(driver()?, params)?)
    }
    fn cuGraphAddHostNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *const c_void) {
        add_node(node, graph, dependencies, count, host_call_work(params)?)
    }
    fn cuGraphAddEmptyNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize) {
        add_node(node, graph, dependencies, count, Work::Nothing)
    }
    fn cuGraphAddEventRecordNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, event: Handle) {
        driver()?.tables().handles.event(event)?;
        add_node(node, graph, dependencies, count, Work::RecordEvent(event))
    }
    fn cuGraphAddEventWaitNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, event: Handle) {
        driver()?.tables().handles.event(event)?;
        add_node(node, graph, dependencies, count, Work::Nothing)
    }
    fn cuGraphAddChildGraphNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, child: Handle) {
        let operations = driver()?.tables().handles.graph(child)?.instantiate()?.operations;
        add_node(node, graph, dependencies, count, Work::Graph(operations.into_iter().map(|(_, work)| work).collect()))
    }
    fn cuGraphAddMemAllocNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, params: *mut c_void) {
        let mut alloc = read_from_client(params.cast::<AllocParams>().cast_const())?;
        alloc.pointer = allocate(alloc.bytes, MemoryKind::Device)?;
        add_node(node, graph, dependencies, count, Work::Allocate)?;
        write_to_client(params.cast(), alloc)
    }
    fn cuGraphAddMemFreeNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, pointer: u64) {
        add_node(node, graph, dependencies, count, Work::Free { address: pointer })
    }
    fn cuGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize) {
        add_or_remove_dependencies(graph, from, to, count, true)
    }
    fn cuGraphAddDependencies_v2(graph: Handle, from: *const Handle, to: *const Handle, _edges: *const c_void, count: usize) {
        add_or_remove_dependencies(graph, from, to, count, true)
    }
    fn cuGraphRemoveDependencies_v2(graph: Handle, from: *const Handle, to: *const Handle, _edges: *const c_void, count: usize) {
        add_or_remove_dependencies(graph, from, to, count, false)
    }
    fn cuGraphDestroyNode(node: Handle) {
        let mut tables = driver()?.tables();
        let (graph, index, _) = tables.handles.node(node)?;
        tables.handles.graph_mut(graph)?.nodes[index].removed = true;
        tables.handles.remove(node, |_| true).map(drop)
    }
    fn cuGraphGetNodes(graph: Handle, places: *mut Handle, count: *mut usize) {
        let all = live_handles(driver()?.tables().handles.graph(graph)?, |_| true);
        write_handles(all, places, count)
    }
    fn cuGraphGetRootNodes(graph: Handle, places: *mut Handle, count: *mut usize) {
        let roots = live_handles(driver()?.tables().handles.graph(graph)?, |node| node.dependencies.is_empty());
        write_handles(roots, places, count)
    }
    fn cuGraphNodeGetType(node: Handle, ty: *mut c_int) {
        write_to_client(ty, node_type(&driver()?.tables().handles.node(node)?.2.work))
    }
    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, _flags: u64) {
        instantiate(exec, graph)
    }
    fn cuGraphInstantiate(exec: *mut Handle, graph: Handle, _flags: u64) {
        instantiate(exec, graph)
    }
    fn cuGraphInstantiateWithParams(exec: *mut Handle, graph: Handle, _params: *mut c_void) {
        instantiate(exec, graph)
    }
    fn cuGraphUpload(exec: Handle, stream: Handle) {
        let driver = driver()?;
        driver.stream(stream)?;
        driver.tables().handles.graph_exec(exec).map(drop)
    }
    fn cuGraphLaunch(exec: Handle, stream: Handle) {
        let driver = driver()?;
        let GraphExec { operations } = driver.tables().handles.graph_exec(exec)?.clone();
        issue(driver, stream, Work::Graph(operations.into_iter().map(|(_, work)| work).collect()))
    }
    fn cuGraphExecDestroy(exec: Handle) {
        driver()?.tables().handles.remove(exec, |object| matches!(object, Object::GraphExec(_))).map(drop)
    }
    /// `result` points to a structure that starts with a code: 0 for success, 1 if the update failed.
    fn cuGraphExecUpdate_v2(exec: Handle, graph: Handle, result: *mut c_int) {
        let updated = update_exec(driver()?, exec, graph);
        write_optional_to_client(result, c_int::from(updated.is_err()));
        updated
    }
    fn cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, params: *const c_void) {
        replace_work(exec, node, read_from_client(params.cast::<KernelParams2>())?.work()?)
    }
    fn cuGraphExecMemsetNodeSetParams(exec: Handle, node: Handle, params: *const c_void, _context: Handle) {
        replace_work(exec, node, fill_work(driver()?, params)?)
    }
    fn cuGraphExecHostNodeSetParams(exec: Handle, node: Handle, params: *const c_void) {
        replace_work(exec, node, host_call_work(params)?)
    }
}
