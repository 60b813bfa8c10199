// RUN: tile-read % | tile-lower-aa -O3 --stop-after=fold --format=text | grep -v '^//!' | tail -n +2
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%a = constant <i32: 6> : tile<i32>
%b = constant <i32: 7> : tile<i32>
%x = muli %a, %b : tile<i32>
%done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
return
}
