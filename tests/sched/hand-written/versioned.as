// RUN: tile-sched --format=text % | grep -oE '(store_view|load_view|reduce_view)\(.*'
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128, 256, 512], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "versioned"(%0: ptr<i64>, %1: ptr<i64>, %2: i32, %3: i32) (warps: 4) @0 {
  type !0 = memref<?x32xi64, strides: [32, 1], scope: 1>
  type !1 = memref<?x32xi64, strides: [32, 1], scope: 2>
  type !2 = view<32x32, !0>
  type !3 = view<32x32, !1>
  type !4 = view<4x32, !0>
  %4 = make_token : token @0
  %5 = make_memref(base: %0, sizes: [%2]) : !0 @0
  %6 = make_memref(base: %1, sizes: [%2]) : !1 @0
  %7 = make_view(memref: %5) : !2 @0
  %8 = make_view(memref: %6) : !3 @0
  %9 = make_view(memref: %5) : !4 @0
  %10, %11 = load_view(view: %7, index: [%3, %3], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<32x32xi64, #0>, token @0
  %12, %13 = load_view(view: %7, index: [%3, %3], token: %4, order: (semantics: weak), in_bounds: [true, true], atom: vector(vector_bits: 0)) : tile<32x32xi64, #0>, token @0
  %14, %15 = load_view(view: %9, index: [%3, %3], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<4x32xi64, #1>, token @0
  %16 = store_view(tile: %10, view: %8, index: [%3, %3], token: %4, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %17 = store_view(tile: %12, view: %8, index: [%3, %3], token: %16, order: (semantics: weak), in_bounds: [true, true], atom: vector(vector_bits: 0)) : token @0
  %18 = store_view(tile: %14, view: %9, index: [%3, %3], token: %15, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %19 = reduce_view(tile: %10, view: %8, index: [%3, %3], token: %17, order: (semantics: relaxed, scope: device), mode: add) : token @0
  return @0
}
//!tile function "versioned"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 64 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 64 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 64 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 64 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 64 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 64 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
