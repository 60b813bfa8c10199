// RUN: tile-read % | tile-lower-aa -O3 --stop-after=shrink --format=text
// The multiplication has 8 elements instead of 64, because its operands are broadcasts of a vector.
// CHECK: mul_i(overflow: none), lhs: %3, rhs: %3) : tile<8x1xi32>
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%v = iota : tile<8xi32>
%column = reshape %v : tile<8xi32> -> tile<8x1xi32>
%full = broadcast %column : tile<8x1xi32> -> tile<8x8xi32>
%x = muli %full, %full : tile<8x8xi32>
%q = reshape %p : tile<ptr<i32>> -> tile<1x1xptr<i32>>
%qs = broadcast %q : tile<1x1xptr<i32>> -> tile<8x8xptr<i32>>
%row = reshape %v : tile<8xi32> -> tile<1x8xi32>
%columns = broadcast %row : tile<1x8xi32> -> tile<8x8xi32>
%at = offset %qs, %columns : tile<8x8xptr<i32>>, tile<8x8xi32> -> tile<8x8xptr<i32>>
%done = store_ptr_tko weak %at, %x : tile<8x8xptr<i32>>, tile<8x8xi32> -> token
return
}
