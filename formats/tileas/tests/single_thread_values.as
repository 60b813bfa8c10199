//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (lane: [1, 2, 4, 8, 0], warp: [0, 0])
func "k"(%0: ptr<i32>) (
  warps: 4,
  buffers: [
    (elem: i32, shape: [], offsets: [], align: 16), // buffer 0
    (elem: ptr(pointee: i32, space: local), shape: [], offsets: [], align: 16), // buffer 1
    (elem: i32, shape: [16], offsets: [1, 2, 4, 8], align: 64), // buffer 2
  ],
) {
  %2 = make_token : token
  %3 = constant(1) : i32
  %4, %5 = atomic_rmw(ptr: %0, value: %3, token: %2, order: (semantics: relaxed, scope: device), mode: add) : i32, token
  shared_store(x: %4, buffer: 0, atom: vector(vector_bits: 0))
  %6 = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : i32
  %7 = binary(kind: add_i(overflow: none), lhs: %6, rhs: %3) : i32
  %8 = alloca(count: 4, align: 16) : ptr<i32, local>
  shared_store(x: %8, buffer: 1, atom: vector(vector_bits: 0))
  %10 = shared_load(buffer: 1, atom: vector(vector_bits: 0)) : ptr<i32, local>
  %9 = store(ptr: %10, value: %7, token: %5, order: (semantics: weak), atom: vector(vector_bits: 0)) : token
  %20 = broadcast(x: %0) : tile<16xptr<i32>, #0>
  %11, %12 = load(ptr: %20, token: %9, order: (semantics: acquire, scope: device), atom: vector(vector_bits: 0)) : tile<16xi32, #0>, token
  shared_store(x: %11, buffer: 2, atom: vector(vector_bits: 0))
  %13 = shared_load(buffer: 2, atom: vector(vector_bits: 0)) : tile<16xi32, #0>
  %14 = unary(kind: neg_i(overflow: none), x: %13) : tile<16xi32, #0>
  %15 = store(ptr: %20, value: %14, token: %12, order: (semantics: weak), atom: vector(vector_bits: 0)) : token
  return
}
