// RUN: tile-read %
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%x = addi %n
