// RUN: tile-read % | tile-lower-aa -O3 --stop-after=induction --format=text
// A loop-carried sum that grows by 3 in each iteration becomes a multiple of the loop counter.
// CHECK: for(
// CHECK: mul_i
// CHECK: store(
// CHECK: continue
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
%c3 = constant <i32: 3> : tile<i32>
%last = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%s = %c0) -> (tile<i32>) {
  %done = store_ptr_tko weak %p, %s : tile<ptr<i32>>, tile<i32> -> token
  %next = addi %s, %c3 : tile<i32>
  continue %next : tile<i32>
}
return
}
