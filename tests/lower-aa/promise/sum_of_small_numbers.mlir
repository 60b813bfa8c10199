// RUN: tile-read % | tile-lower-aa -O3 --stop-after=promise --format=text
// The counter is less than 2147483647, so adding 1 cannot wrap.
// CHECK: for(
// CHECK: add_i(overflow: n
// CHECK: store(
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
for %i in (%c0 to %n, step %c1) : tile<i32> {
  %x = addi %i, %c1 : tile<i32>
  %done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
  continue
}
return
}
