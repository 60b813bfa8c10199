//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [64], lane: [1, 2, 4, 8, 16], warp: [32])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32])
layout #2 = (lane: [0, 0, 0, 0, 0], warp: [1])
layout #3 = (register: [1], lane: [0, 0, 0, 0, 0], warp: [0])
layout #4 = (lane: [0, 0, 0, 0, 0], warp: [0])
func "reduce_in_branch"(%0: ptr<i32>, %1: ptr<i32>) (
  warps: 2,
  buffers: [
    (elem: i32, shape: [2], offsets: [1], align: 128), // buffer 0
    (elem: i32, shape: [2], offsets: [1], align: 128), // buffer 1
    (elem: i32, shape: [2], offsets: [1], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<256xi32, strides: [1], scope: 1>
  type !1 = view<128, !0>
  %2 = block_id(axis: 0) : i32 @0
  %3 = constant(0) : i32 @0
  %4 = make_memref(base: %0) : !0 @0
  %5 = make_view(memref: %4) : !1 @0
  %6, %7 = load_view(view: %5, index: [%2], order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<128xi32, #0>, token @0
  %8 = compare(kind: int(predicate: equal, signedness: signed), lhs: %2, rhs: %3) : i1 @0
  if(cond: %8) @0 {
    %9 = reduce_registers(operands: [%6], dim: 0) : tile<64xi32, #1> @0 {
      (%10: i32, %11: i32)
      %12 = binary(kind: add_i(overflow: none), lhs: %10, rhs: %11) : i32 @0
      yield(values: [%12]) @0
    }
    %13 = reduce_lanes(operands: [%9], dim: 0) : tile<2xi32, #2> @0 {
      (%14: i32, %15: i32)
      %16 = binary(kind: add_i(overflow: none), lhs: %14, rhs: %15) : i32 @0
      yield(values: [%16]) @0
    }
    shared_store(x: %13, buffer: 0, atom: vector(vector_bits: 0)) @0
    %17 = shared_load(buffer: 0, atom: vector(vector_bits: 1)) : tile<2xi32, #3> @0
    %18 = reduce_registers(operands: [%17], dim: 0) : tile<1xi32, #4> @0 {
      (%19: i32, %20: i32)
      %21 = binary(kind: add_i(overflow: none), lhs: %19, rhs: %20) : i32 @0
      yield(values: [%21]) @0
    }
    %22 = reshape(x: %18) : i32 @0
    %23 = store(ptr: %1, value: %22, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    yield @0
  } {
    %24 = iota : tile<128xi32, #0> @0
    %25, %26 = reduce_registers(operands: [%6, %24], dim: 0) : tile<64xi32, #1>, tile<64xi32, #1> @0 {
      (%27: i32, %28: i32, %29: i32, %30: i32)
      %31 = compare(kind: int(predicate: greater_than, signedness: signed), lhs: %27, rhs: %28) : i1 @0
      %32 = compare(kind: int(predicate: equal, signedness: signed), lhs: %27, rhs: %28) : i1 @0
      %33 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %29, rhs: %30) : i1 @0
      %34 = binary(kind: and, lhs: %32, rhs: %33) : i1 @0
      %35 = binary(kind: or, lhs: %31, rhs: %34) : i1 @0
      %36 = select(cond: %35, yes: %27, no: %28) : i32 @0
      %37 = select(cond: %35, yes: %29, no: %30) : i32 @0
      yield(values: [%36, %37]) @0
    }
    %38, %39 = reduce_lanes(operands: [%25, %26], dim: 0) : tile<2xi32, #2>, tile<2xi32, #2> @0 {
      (%40: i32, %41: i32, %42: i32, %43: i32)
      %44 = compare(kind: int(predicate: greater_than, signedness: signed), lhs: %40, rhs: %41) : i1 @0
      %45 = compare(kind: int(predicate: equal, signedness: signed), lhs: %40, rhs: %41) : i1 @0
      %46 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %42, rhs: %43) : i1 @0
      %47 = binary(kind: and, lhs: %45, rhs: %46) : i1 @0
      %48 = binary(kind: or, lhs: %44, rhs: %47) : i1 @0
      %49 = select(cond: %48, yes: %40, no: %41) : i32 @0
      %50 = select(cond: %48, yes: %42, no: %43) : i32 @0
      yield(values: [%49, %50]) @0
    }
    shared_store(x: %38, buffer: 1, atom: vector(vector_bits: 0)) @0
    %51 = shared_load(buffer: 1, atom: vector(vector_bits: 1)) : tile<2xi32, #3> @0
    shared_store(x: %39, buffer: 2, atom: vector(vector_bits: 0)) @0
    %52 = shared_load(buffer: 2, atom: vector(vector_bits: 1)) : tile<2xi32, #3> @0
    %53, %54 = reduce_registers(operands: [%51, %52], dim: 0) : tile<1xi32, #4>, tile<1xi32, #4> @0 {
      (%55: i32, %56: i32, %57: i32, %58: i32)
      %59 = compare(kind: int(predicate: greater_than, signedness: signed), lhs: %55, rhs: %56) : i1 @0
      %60 = compare(kind: int(predicate: equal, signedness: signed), lhs: %55, rhs: %56) : i1 @0
      %61 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %57, rhs: %58) : i1 @0
      %62 = binary(kind: and, lhs: %60, rhs: %61) : i1 @0
      %63 = binary(kind: or, lhs: %59, rhs: %62) : i1 @0
      %64 = select(cond: %63, yes: %55, no: %56) : i32 @0
      %65 = select(cond: %63, yes: %57, no: %58) : i32 @0
      yield(values: [%64, %65]) @0
    }
    %66 = reshape(x: %53) : i32 @0
    %67 = reshape(x: %54) : i32 @0
    %68 = constant(2) : i32 @0
    %69 = constant(3) : i32 @0
    %70 = offset(ptr: %1, offset: %68) : ptr<i32> @0
    %71 = offset(ptr: %1, offset: %69) : ptr<i32> @0
    %72 = store(ptr: %70, value: %66, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    %73 = store(ptr: %71, value: %67, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    yield @0
  }
  return @0
}
//!tile function "reduce_in_branch"
//!tile log (pass: "dead", outcome: Passed, name: "Removed", category: Other, function: 0, loc: @0, message: "2 changes")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits a thread; neighbouring elements are not known to be aligned, together and in bounds")
