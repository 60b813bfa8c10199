// RUN: tile-read % | tile-lower-aa -O3 --stop-after=fold --format=text | grep -v '^//!' | tail -n +2
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%a = constant <i32: 0> : tile<i32>
%x = addi %n, %a : tile<i32>
%done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
return
}
