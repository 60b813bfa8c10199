// RUN: tile-read % | tile-lower-aa -O3 --stop-after=hoist-rest --format=text
// Folding replaces the select by %n, so the multiplication becomes invariant and leaves the loop.
// CHECK: mul_i
// CHECK: for(
// CHECK-NOT: mul_i
// CHECK: store(
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
for %i in (%c0 to %n, step %c1) : tile<i32> {
  %negative = cmpi less_than %i, %c0, signed : tile<i32> -> tile<i1>
  %x = select %negative, %i, %n : tile<i1>, tile<i32>
  %y = muli %x, %x : tile<i32>
  %done = store_ptr_tko weak %p, %y : tile<ptr<i32>>, tile<i32> -> token
  continue
}
return
}
