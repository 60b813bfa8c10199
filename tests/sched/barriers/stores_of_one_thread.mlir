// RUN: tile-read % | tile-lower-aa -O3 | tile-lower-as --gpu-name sm_90 | tile-sched --format=text
// One thread stores all tiles of one element, so the order of a token needs no barrier.
// CHECK: for(
// CHECK-NOT: barrier
// CHECK: store(
// CHECK: continue
entry @k(%p: tile<ptr<i32>>, %index: tile<ptr<i32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
%first, %t0 = load_ptr_tko weak %index : tile<ptr<i32>> -> tile<i32>, token
%t = make_token : token
%end = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%before = %t) -> (token) {
  %square = muli %i, %first : tile<i32>
  %a = offset %p, %square : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %done = store_ptr_tko weak %a, %i token=%before : tile<ptr<i32>>, tile<i32> -> token
  continue %done : token
}
return
}
