// RUN: tile-sched --format=text % | grep -oE '(barrier|store|load|store_view|load_view|for|if)\('
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #1 = (register: [8], lane: [16, 32, 64, 128, 1], warp: [2, 4])
func "versioned"(%0: ptr<i32>, %1: ptr<i32>, %2: ptr<i32>, %3: i32, %4: i1) (warps: 4) @0 {
  type !0 = memref<?xi32, strides: [1], scope: 1>
  type !1 = memref<?xi32, strides: [1], scope: 2>
  type !2 = view<256, !0>
  type !3 = view<256, !1>
  %5 = constant(0) : i32 @0
  %6 = constant(1) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %0, sizes: [%3]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%3]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %9) : !3 @0
  %12 = for(lower: %5, upper: %3, step: %6, init: [%7]) : token @0 {
    (%13: i32, %14: token)
    %15 = broadcast(x: %2) : tile<256xptr<i32>, #0> @0
    %16 = iota : tile<256xi32, #0> @0
    %17 = offset(ptr: %15, offset: %16) : tile<256xptr<i32>, #0> @0
    %18 = store(ptr: %17, value: %16, token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    %19 = iota : tile<256xi32, #1> @0
    %20 = reshape(x: %19) : tile<16x16xi32, #1> @0
    %21 = permute(x: %20, order: [1, 0]) : tile<16x16xi32, #0> @0
    %22 = reshape(x: %21) : tile<256xi32, #0> @0
    %23 = offset(ptr: %15, offset: %22) : tile<256xptr<i32>, #0> @0
    %24, %25 = load(ptr: %23, token: %18, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<256xi32, #0>, token @0
    %26 = if(cond: %4) : token @0 {
      %27 = store_view(tile: %24, view: %10, index: [%13], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
      yield(values: [%27]) @0
    } {
      yield(values: [%7]) @0
    }
    %28, %29 = load_view(view: %11, index: [%5], token: %14, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<256xi32, #0>, token @0
    %30 = store(ptr: %17, value: %28, token: %25, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%26]) @0
  }
  return @0
}
//!tile function "versioned"
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
