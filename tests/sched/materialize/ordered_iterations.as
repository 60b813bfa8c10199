// RUN: tile-sched --format=text % | grep -oE '(barrier|store|for)\('
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "rounds"(%0: ptr<i32>, %1: ptr<i32>, %2: ptr<i32>, %3: ptr<i32>, %4: i32) (warps: 4) @0 {
  %5 = constant(0) : i32 @0
  %6 = constant(1) : i32 @0
  %7 = constant(256) : i32 @0
  %8 = make_token : token @0
  %9 = for(lower: %5, upper: %4, step: %6, init: [%8]) : token @0 {
    (%10: i32, %11: token)
    %12 = binary(kind: mul_i(overflow: no_wrap), lhs: %10, rhs: %6) : i32 @0
    %13 = broadcast(x: %0) : tile<256xptr<i32>, #0> @0
    %14 = broadcast(x: %12) : tile<256xi32, #0> @0
    %15 = iota : tile<256xi32, #0> @0
    %16 = binary(kind: add_i(overflow: no_wrap), lhs: %14, rhs: %15) : tile<256xi32, #0> @0
    %17 = offset(ptr: %13, offset: %16) : tile<256xptr<i32>, #0> @0
    %18 = store(ptr: %17, value: %14, token: %11, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%18]) @0
  }
  %19 = for(lower: %5, upper: %4, step: %6, init: [%8]) : token @0 {
    (%20: i32, %21: token)
    %22 = binary(kind: mul_i(overflow: none), lhs: %20, rhs: %7) : i32 @0
    %23 = broadcast(x: %1) : tile<256xptr<i32>, #0> @0
    %24 = broadcast(x: %22) : tile<256xi32, #0> @0
    %25 = iota : tile<256xi32, #0> @0
    %26 = binary(kind: add_i(overflow: none), lhs: %24, rhs: %25) : tile<256xi32, #0> @0
    %27 = offset(ptr: %23, offset: %26) : tile<256xptr<i32>, #0> @0
    %28 = store(ptr: %27, value: %24, token: %21, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%28]) @0
  }
  %29 = for(lower: %5, upper: %4, step: %6, init: [%8]) : token @0 {
    (%30: i32, %31: token)
    %32 = binary(kind: mul_i(overflow: no_wrap), lhs: %30, rhs: %7) : i32 @0
    %33 = broadcast(x: %2) : tile<256xptr<i32>, #0> @0
    %34 = broadcast(x: %32) : tile<256xi32, #0> @0
    %35 = iota : tile<256xi32, #0> @0
    %36 = binary(kind: add_i(overflow: no_wrap), lhs: %34, rhs: %35) : tile<256xi32, #0> @0
    %37 = offset(ptr: %33, offset: %36) : tile<256xptr<i32>, #0> @0
    %38 = store(ptr: %37, value: %34, token: %31, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%38]) @0
  }
  %39 = broadcast(x: %3) : tile<256xptr<i32>, #0> @0
  %40 = iota : tile<256xi32, #0> @0
  %41 = offset(ptr: %39, offset: %40) : tile<256xptr<i32>, #0> @0
  %42, %43 = for(lower: %5, upper: %4, step: %6, init: [%41, %8]) : tile<256xptr<i32>, #0>, token @0 {
    (%44: i32, %45: tile<256xptr<i32>, #0>, %46: token)
    %47 = broadcast(x: %7) : tile<256xi32, #0> @0
    %48 = offset(ptr: %45, offset: %47) : tile<256xptr<i32>, #0> @0
    %49 = broadcast(x: %44) : tile<256xi32, #0> @0
    %50 = store(ptr: %45, value: %49, token: %46, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%48, %50]) @0
  }
  %51, %52 = for(lower: %5, upper: %4, step: %6, init: [%41, %43]) : tile<256xptr<i32>, #0>, token @0 {
    (%53: i32, %54: tile<256xptr<i32>, #0>, %55: token)
    %56 = broadcast(x: %6) : tile<256xi32, #0> @0
    %57 = offset(ptr: %54, offset: %56) : tile<256xptr<i32>, #0> @0
    %58 = broadcast(x: %53) : tile<256xi32, #0> @0
    %59 = store(ptr: %54, value: %58, token: %55, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    continue(values: [%57, %59]) @0
  }
  return @0
}
//!tile function "rounds"
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
