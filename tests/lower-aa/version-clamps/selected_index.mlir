// RUN: tile-read % | tile-lower-aa -O3 --stop-after=version-clamps --format=text
// In the first version, all elements of the condition are true. A clamp that feeds no address is not versioned.
// CHECK: constant(255) : i64
// CHECK: compare(kind: int(predicate: greater_than, signedness: signed)
// CHECK: if(
// CHECK-NOT: select(
// CHECK: store(
// CHECK: yield
// CHECK: select(
// CHECK: store(
// CHECK: min_i
// CHECK-NOT: if(
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>, %fallback: tile<i32>) {
%i = iota : tile<256xi32>
%n1 = reshape %n : tile<i32> -> tile<1xi32>
%n2 = broadcast %n1 : tile<1xi32> -> tile<256xi32>
%f1 = reshape %fallback : tile<i32> -> tile<1xi32>
%f2 = broadcast %f1 : tile<1xi32> -> tile<256xi32>
%c = cmpi less_than %i, %n2, signed : tile<256xi32> -> tile<256xi1>
%j = select %c, %i, %f2 : tile<256xi1>, tile<256xi32>
%p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
%p2 = broadcast %p1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
%a = offset %p2, %j : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
%t = store_ptr_tko weak %a, %i : tile<256xptr<i32>>, tile<256xi32> -> token
return
}
entry @value(%p: tile<ptr<i32>>) {
%i = iota : tile<256xi32>
%c = constant <i32: 100> : tile<256xi32>
%j = mini %i, %c signed : tile<256xi32>
%p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
%p2 = broadcast %p1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
%a = offset %p2, %i : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
%t = store_ptr_tko weak %a, %j : tile<256xptr<i32>>, tile<256xi32> -> token
return
}
