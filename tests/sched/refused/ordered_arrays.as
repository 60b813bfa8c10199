// RUN: tile-sched --format=text -o whole.sched %; tile-sched --verify-only whole.sched; grep -oE '(barrier|store_view|load_view)\(' whole.sched; awk '!/barrier/' whole.sched > part.sched; tile-sched --verify-only part.sched
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "arrays"(%0: ptr<i32>, %1: ptr<i32>) (warps: 4) @0 {
  type !0 = memref<256xi32, strides: [1], scope: 1>
  type !1 = memref<256xi32, strides: [1], scope: 2>
  type !2 = view<256, !0>
  type !3 = view<128, !1>
  %2 = constant(0) : i32 @0
  %3 = constant(1) : i32 @0
  %4 = make_token : token @0
  %5 = make_memref(base: %0) : !0 @0
  %6 = make_memref(base: %1) : !1 @0
  %7 = make_view(memref: %5) : !2 @0
  %8 = make_view(memref: %6) : !3 @0
  %9 = iota : tile<256xi32, #0> @0
  %10 = store_view(tile: %9, view: %7, index: [%2], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %11, %12 = load_view(view: %8, index: [%3], token: %10, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<128xi32, #1>, token @0
  %13 = store_view(tile: %11, view: %8, index: [%2], token: %12, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "arrays"
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
