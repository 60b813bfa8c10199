// RUN: tile-read % | tile-lower-aa -O3 --stop-after=dead --format=text | grep -cE 'load' || true
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%v, %l = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
%x = addi %n, %n : tile<i32>
%done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
return
}
