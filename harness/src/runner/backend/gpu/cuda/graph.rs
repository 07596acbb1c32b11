//! What a recorded graph consists of: work of the device, or something that the host or others take part in.

use cudarc::driver::sys;

use super::super::driver::{Done, Piece};
use super::error::Named as _;

/// What a node of a graph is.
pub(super) fn piece(node: sys::CUgraphNode) -> Done<Piece> {
    use sys::CUgraphNodeType as Kind;
    // A number: a later driver knows kinds that this enumeration does not.
    let mut kind = u32::MAX;
    // SAFETY: the node is of a graph that is there, and one number, as large as the enumeration, is written to a variable of
    // this frame.
    unsafe { sys::cuGraphNodeGetType(node, (&raw mut kind).cast()) }.of("cuGraphNodeGetType")?;
    let is = |known: Kind| kind == known as u32;
    let on_device = [
        Kind::CU_GRAPH_NODE_TYPE_KERNEL,
        Kind::CU_GRAPH_NODE_TYPE_MEMSET,
        Kind::CU_GRAPH_NODE_TYPE_EMPTY,
        Kind::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        Kind::CU_GRAPH_NODE_TYPE_MEM_FREE,
    ];
    Ok(if on_device.into_iter().any(is) {
        Piece::OnDevice
    } else if is(Kind::CU_GRAPH_NODE_TYPE_MEMCPY) {
        copy(node)?
    } else if is(Kind::CU_GRAPH_NODE_TYPE_HOST) {
        Piece::Elsewhere("a function of the host")
    } else if is(Kind::CU_GRAPH_NODE_TYPE_GRAPH) {
        Piece::Elsewhere("a graph of its own")
    } else if is(Kind::CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
        Piece::Elsewhere("an event from outside to wait for")
    } else if is(Kind::CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
        Piece::Elsewhere("an event for somebody outside")
    } else {
        Piece::Elsewhere("a semaphore, or something else that others see")
    })
}

/// A copy from the device's memory to the device's memory, or one that reaches the host's.
fn copy(node: sys::CUgraphNode) -> Done<Piece> {
    // SAFETY: numbers and pointers, of which all zeros are some.
    let mut copied: sys::CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
    // SAFETY: the node is a copy of a graph that is there, and is described in a variable of this frame.
    unsafe { sys::cuGraphMemcpyNodeGetParams(node, &mut copied) }.of("cuGraphMemcpyNodeGetParams")?;
    let ends = [(copied.srcMemoryType, copied.srcDevice), (copied.dstMemoryType, copied.dstDevice)];
    let inside = ends.into_iter().all(|(kind, address)| match kind {
        sys::CUmemorytype::CU_MEMORYTYPE_DEVICE => true,
        // One address space for all: the address says whose it is.
        sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED => is_on_device(address),
        _ => false,
    });
    Ok(if inside { Piece::OnDevice } else { Piece::Elsewhere("a copy from or to the host") })
}

fn is_on_device(address: u64) -> bool {
    let mut kind = 0u32;
    let asked = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    // SAFETY: the address is only looked up, and one number is written to a variable of this frame.
    let told = unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), asked, address) };
    told == sys::CUresult::CUDA_SUCCESS && kind == sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32
}
