// RUN: tile-read %
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%c0 = constant <i32: 0> : tile<i32>
%c1 = constant <i32: 1> : tile<i32>
for %i in (%c0 to %n, step %c1) : tile<i32> {
continue
}
%x = addi %i, %n : tile<i32>
return
}
