// RUN: tile-read % | tile-lower-aa -O3 --stop-after=structure-exits | tile-dump --bare | grep -v '^//!'
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
  %odd = cmpi equal %i, %one, signed : tile<i32> -> tile<i1>
  if %odd {
    continue %s : tile<i32>
  }
  %next = addi %s, %i : tile<i32>
  continue %next : tile<i32>
}
%done = store_ptr_tko weak %p, %sum : tile<ptr<i32>>, tile<i32> -> token
return
}
