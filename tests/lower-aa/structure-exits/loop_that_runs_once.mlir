// RUN: tile-read % | tile-lower-aa -O3 --stop-after=structure-exits | tile-dump --bare | grep -v '^//!'
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%zero = constant <i32: 0> : tile<i32>
%r = loop iter_values(%s = %n) : tile<i32> -> tile<i32> {
  %none = cmpi equal %s, %zero, signed : tile<i32> -> tile<i1>
  if %none {
    break %zero : tile<i32>
  }
  %twice = addi %s, %s : tile<i32>
  break %twice : tile<i32>
}
%done = store_ptr_tko weak %p, %r : tile<ptr<i32>>, tile<i32> -> token
return
}
