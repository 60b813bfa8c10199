// RUN: tile-read % | tile-lower-aa -O0 --stop-after=convert --format=text | grep -v '^//!' | tail -n +2
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%x = addi %n, %n : tile<i32>
%done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
return
}
