// RUN: tile-read % | tile-lower-aa | tile-lower-as --gpu-name sm_120 | tile-sched | tile-ptx | grep -E "^\.(target|entry|func)"
// A module without functions compiles. cuTile Python compiles such modules to find the newest bytecode version of the compiler.
cuda_tile.module @empty {
}
