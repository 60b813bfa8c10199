// RUN: tile-read % | tile-lower-aa -O3 --format=text | grep -oE 'for\(|mul_i|div_i|store\('
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
for %i in (%c0 to %n, step %c1) : tile<i32> {
%a = muli %n, %n : tile<i32>
%b = divi %a, %n signed : tile<i32>
%x = addi %b, %i : tile<i32>
%done = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
continue
}
return
}
