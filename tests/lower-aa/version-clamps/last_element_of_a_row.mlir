// RUN: tile-read % | tile-lower-aa -O3 --stop-after=version-clamps --format=text
// The first version has no clamp. It runs only if no index of the tile block exceeds 1999, and if the first index is a multiple
// of 16.
// CHECK: constant(255) : i64
// CHECK: constant(1999) : i64
// CHECK: compare(kind: int(predicate: less_than_or_equal, signedness: signed)
// CHECK: constant(15) : i64
// CHECK: compare(kind: int(predicate: equal, signedness: signed)
// CHECK: if(
// CHECK: assume(value: %2, fact: div_by(divisor: 16)) : i32
// CHECK-NOT: min_i
// CHECK: store(
// CHECK: yield
// CHECK: min_i
// CHECK: store(
entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %start: tile<i32>) {
%last = constant <i32: 1999> : tile<256xi32>
%n = iota : tile<256xi32>
%s = reshape %start : tile<i32> -> tile<1xi32>
%t = broadcast %s : tile<1xi32> -> tile<256xi32>
%i = addi %t, %n : tile<256xi32>
%j = mini %i, %last signed : tile<256xi32>
%p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
%p2 = broadcast %p1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
%a = offset %p2, %j : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
%x, %t0 = load_ptr_tko weak %a : tile<256xptr<f32>> -> tile<256xf32>, token
%q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
%q2 = broadcast %q1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
%b = offset %q2, %n : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
%t1 = store_ptr_tko weak %b, %x token=%t0 : tile<256xptr<f32>>, tile<256xf32> -> token
return
}
