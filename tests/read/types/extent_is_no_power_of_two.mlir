// RUN: tile-read %
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%x = iota : tile<6xi32>
return
}
