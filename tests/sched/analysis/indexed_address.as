// RUN: tile-sched % --format=text -o - | grep -oE 'loads are issued[^"]*'
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile option prefetch=on
//!tile producer tile-lower-as 0.1.0
//!tile input c36d1b4bb17ac69ba0ad14833655d30f28173219f67634fd470c870d93f2068c
layout #0 = (lane: [0, 0, 0, 0, 0])
func "looked_up_address"(%0: ptr<i32>, %1: ptr<i32>, %2: ptr<i32>, %3: i32) (warps: 1) @0 {
  %4 = constant(0) : i32 @0
  %5 = constant(1) : i32 @0
  for(lower: %4, upper: %3, step: %5) @0 {
    (%6: i32)
    %7 = offset(ptr: %0, offset: %6) : ptr<i32> @0
    %8 = reshape(x: %7) : tile<1xptr<i32>, #0> @0
    %9, %10 = load(ptr: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1xi32, #0>, token @0
    %11 = reshape(x: %1) : tile<1xptr<i32>, #0> @0
    %12 = offset(ptr: %11, offset: %9) : tile<1xptr<i32>, #0> @0
    %13, %14 = load(ptr: %12, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1xi32, #0>, token @0
    %15 = offset(ptr: %2, offset: %6) : ptr<i32> @0
    %16 = reshape(x: %15) : tile<1xptr<i32>, #0> @0
    %17 = store(ptr: %16, value: %13, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue @0
  }
  return @0
}
//!tile function "looked_up_address"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
