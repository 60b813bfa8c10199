// RUN: tile-read % | tile-lower-aa | tile-lower-as --gpu-name sm_90 --prefetch=on | tile-sched - --format=text -o - | grep -oE 'loads are issued[^"]*'
// The second load's address comes from the first one's value: only the first is loaded an iteration ahead.
entry @looked_up_address(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %r: tile<ptr<i32>>, %n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  for %i in (%zero to %n, step %one) : tile<i32> {
    %a = offset %p, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %a1 = reshape %a : tile<ptr<i32>> -> tile<1xptr<i32>>
    %x, %0 = load_ptr_tko weak %a1 : tile<1xptr<i32>> -> tile<1xi32>, token
    %q1 = reshape %q : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = offset %q1, %x : tile<1xptr<i32>>, tile<1xi32> -> tile<1xptr<i32>>
    %y, %1 = load_ptr_tko weak %b : tile<1xptr<i32>> -> tile<1xi32>, token
    %c = offset %r, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %c1 = reshape %c : tile<ptr<i32>> -> tile<1xptr<i32>>
    %2 = store_ptr_tko weak %c1, %y : tile<1xptr<i32>>, tile<1xi32> -> token
    continue
  }
  return
}
