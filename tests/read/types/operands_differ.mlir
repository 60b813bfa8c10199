// RUN: tile-read %
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%a = constant <i64: 1> : tile<i64>
%x = addi %n, %a : tile<i32>
%done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
return
}
