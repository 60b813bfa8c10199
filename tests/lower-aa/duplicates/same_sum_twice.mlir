// RUN: tile-read % | tile-lower-aa -O3 --stop-after=duplicates --format=text | grep -oE '(add|mul)_i.*'
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%a = addi %n, %n : tile<i32>
%b = addi %n, %n : tile<i32>
%x = muli %a, %b : tile<i32>
%done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
return
}
