//! Entry points of the driver API that the CPU device does not support. The library exports these entry points, so that clients can
//! load it. A call of such an entry point reports the name of the entry point, and returns `CUDA_ERROR_NOT_SUPPORTED`.

use crate::driver::initialised_driver;
use crate::status::Status;
use std::ffi::{c_int, c_void};

/// Reports a call of an unsupported entry point. Returns the result code.
fn refuse(name: &str) -> c_int {
    match initialised_driver() {
        Some(driver) => driver.report.report_unsupported(name),
        None => eprintln!("tileworks: {name} is not supported by the CPU device"),
    }
    Status::NotSupported as c_int
}

/// Exports functions without parameters. A client may call them with arguments, because in C the caller removes the arguments.
macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, unreachable_pub, reason = "the name is that of the driver API")]
            pub extern "C" fn $name() -> c_int {
                refuse(stringify!($name))
            }
        )*
        static ENTRIES: &[super::Entry] = &[$(super::Entry { name: stringify!($name), address: $name as *const c_void },)*];
    };
}

/// Returns the address of an unsupported entry point. `symbol` is its name without a version suffix.
pub(crate) fn address_of(symbol: &str) -> Option<*const c_void> {
    let is_version =
        |entry: &&super::Entry| entry.name.strip_prefix(symbol).is_some_and(|rest| rest.is_empty() || rest.starts_with("_v"));
    ENTRIES.iter().find(is_version).map(|entry| entry.address)
}

unsupported! {
    cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayCreate_v2 cuArrayDestroy cuArrayGetDescriptor_v2
    cuArrayGetMemoryRequirements cuArrayGetPlane cuArrayGetSparseProperties cuCheckpointProcessCheckpoint
    cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState cuCheckpointProcessLock cuCheckpointProcessRestore
    cuCheckpointProcessUnlock cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute
    cuCoredumpGetAttributeGlobal cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback cuCoredumpSetAttribute
    cuCoredumpSetAttributeGlobal cuCtxAttach cuCtxDetach cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxFromGreenCtx
    cuCtxGetDevResource cuCtxGetExecAffinity cuCtxGetSharedMemConfig cuCtxRecordEvent cuCtxSetSharedMemConfig cuCtxWaitEvent
    cuDestroyExternalMemory cuDestroyExternalSemaphore cuDevResourceGenerateDesc cuDevSmResourceSplit cuDevSmResourceSplitByCount
    cuDeviceGetDevResource cuDeviceGetExecAffinitySupport cuDeviceGetGraphMemAttribute cuDeviceGetHostAtomicCapabilities
    cuDeviceGetLuid cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAtomicCapabilities cuDeviceGetP2PAttribute cuDeviceGetProperties
    cuDeviceGetTexture1DLinearMaxWidth cuDeviceGraphMemTrim cuDeviceRegisterAsyncNotification cuDeviceSetGraphMemAttribute
    cuDeviceUnregisterAsyncNotification cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray
    cuFlushGPUDirectRDMAWrites cuFuncGetParamCount cuFuncSetBlockShape cuFuncSetSharedSize cuGraphAddBatchMemOpNode
    cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode cuGraphAddMemcpyNode cuGraphAddNode_v2
    cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph cuGraphClone
    cuGraphConditionalHandleCreate cuGraphDebugDotPrint cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent
    cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent cuGraphExecBatchMemOpNodeSetParams
    cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent
    cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetFlags
    cuGraphExecGetId cuGraphExecMemcpyNodeSetParams cuGraphExecNodeSetParams cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges_v2 cuGraphGetId cuGraphHostNodeGetParams cuGraphHostNodeSetParams
    cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetAttribute
    cuGraphKernelNodeSetParams_v2 cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams cuGraphMemcpyNodeGetParams
    cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams cuGraphMemsetNodeSetParams cuGraphNodeFindInClone
    cuGraphNodeGetContainingGraph cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes_v2 cuGraphNodeGetEnabled
    cuGraphNodeGetLocalId cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphNodeSetEnabled cuGraphNodeSetParams
    cuGraphReleaseUserObject cuGraphRetainUserObject cuGraphicsMapResources cuGraphicsResourceGetMappedMipmappedArray
    cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags_v2 cuGraphicsSubResourceGetMappedArray
    cuGraphicsUnmapResources cuGraphicsUnregisterResource cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource
    cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent cuImportExternalMemory
    cuImportExternalSemaphore cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle_v2
    cuKernelGetParamCount cuLaunch cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync cuLibraryGetUnifiedFunction
    cuLinkAddData_v2 cuLinkAddFile_v2 cuLinkCreate_v2 cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuLogsRegisterCallback
    cuLogsUnregisterCallback cuMemAddressFree cuMemAddressReserve cuMemBatchDecompressAsync cuMemCreate
    cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync cuMemExportToShareableHandle cuMemGetAccess
    cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle cuMemGetDefaultMemPool cuMemGetHandleForAddressRange
    cuMemGetMemPool cuMemImportFromShareableHandle cuMemMap cuMemMapArrayAsync cuMemPoolExportPointer
    cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle cuMemPoolImportPointer cuMemPrefetchBatchAsync
    cuMemRangeGetAttribute cuMemRangeGetAttributes cuMemRelease cuMemRetainAllocationHandle cuMemSetAccess cuMemSetMemPool
    cuMemUnmap cuMemcpy3DAsync_v2 cuMemcpy3DBatchAsync_v2 cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3DWithAttributesAsync
    cuMemcpy3D_v2 cuMemcpyAtoA_v2 cuMemcpyAtoD_v2 cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2 cuMemcpyBatchAsync_v2 cuMemcpyDtoA_v2
    cuMemcpyHtoAAsync_v2 cuMemcpyHtoA_v2 cuMemcpyWithAttributesAsync cuMipmappedArrayCreate cuMipmappedArrayDestroy
    cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements cuMipmappedArrayGetSparseProperties cuModuleGetSurfRef
    cuModuleGetTexRef cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindAddr_v2 cuMulticastBindMem cuMulticastBindMem_v2
    cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind cuOccupancyAvailableDynamicSMemPerBlock
    cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
    cuOccupancyMaxPotentialClusterSize cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv
    cuSignalExternalSemaphoresAsync cuStreamBeginCaptureToCig cuStreamBeginCaptureToGraph
    cuStreamEndCaptureToCig cuStreamGetDevResource cuStreamGetGreenCtx cuStreamUpdateCaptureDependencies_v2
    cuSurfObjectCreate cuSurfObjectDestroy
    cuSurfObjectGetResourceDesc cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide
    cuTensorMapEncodeTiled cuTensorMapReplaceAddress cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc
    cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefCreate cuTexRefDestroy cuTexRefGetAddressMode
    cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat
    cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
    cuTexRefGetMipmappedArray cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode cuTexRefSetAddress_v2
    cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy
    cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray
    cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain cuWaitExternalSemaphoresAsync
}
