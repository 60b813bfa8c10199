// RUN: tile-read % | tile-lower-aa -O3 --stop-after=refold --format=text
// Pass use-facts makes the condition a constant. Folding again removes the select.
// CHECK: for(
// CHECK-NOT: select(
// CHECK: store(
// CHECK-NOT: select(
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
for %i in (%c0 to %n, step %c1) : tile<i32> {
  %negative = cmpi less_than %i, %c0, signed : tile<i32> -> tile<i1>
  %x = select %negative, %n, %i : tile<i1>, tile<i32>
  %done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
  continue
}
return
}
