// RUN: tile-read %
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%x = iota : tile<8xi32>
%y = reshape %x : tile<8xi32> -> tile<4xi32>
return
}
