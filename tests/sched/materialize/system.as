// RUN: tile-sched --format=text % | grep -oE '^ +.*(alloca|shared_store|shared_load|barrier|free|print[a-z_]*|break|continue)(\(| @).*'
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "system"(%0: ptr<i32>, %1: i32) (
  warps: 4,
  buffers: [
    (elem: ptr(pointee: i32, space: local), align: 128), // buffer 0
  ],
) @0 {
  %2 = constant(1) : i32 @0
  %3 = constant(0) : i32 @0
  %4 = loop(init: [%3]) : i32 @0 {
    (%5: i32)
    %6 = alloca(count: 256, align: 16) : ptr<i32, local> @0
    shared_store(x: %6, buffer: 0, atom: vector(vector_bits: 0)) @0
    %7 = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : ptr<i32, local> @0
    %8 = broadcast(x: %7) : tile<256xptr<i32, local>, #0> @0
    %9 = iota : tile<256xi32, #0> @0
    %10 = offset(ptr: %8, offset: %9) : tile<256xptr<i32, local>, #0> @0
    %11 = store(ptr: %10, value: %9, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    %12, %13 = load(ptr: %10, token: %11, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<256xi32, #0>, token @0
    %14 = print(format: "%d: %d\n", args: [%5, %12], token: %13) : token @0
    %15 = print(format: "round %d\n", args: [%5], token: %14) : token @0
    %16 = compare(kind: int(predicate: greater_than, signedness: signed), lhs: %5, rhs: %1) : i1 @0
    if(cond: %16) @0 {
      %17 = alloca(count: 4, align: 16) : ptr<i32, local> @0
      break(values: [%5]) @0
    } {
      yield @0
    }
    %18 = binary(kind: add_i(overflow: none), lhs: %5, rhs: %2) : i32 @0
    continue(values: [%18]) @0
  }
  return @0
}
//!tile function "system"
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
