// Slices, concatenations and reductions of tiles.
global  @table alignment = 16 <i32: [1, 2, 3, 4, 5, 6, 7, 8]> : tile<8xi32>
entry @shapes(%arg0: tile<ptr<f32>>) {
  %iota = iota : tile<8xi32>
  %a = reshape %iota : tile<8xi32> -> tile<2x4xi32>
  %b = permute %a [1, 0] : tile<2x4xi32> -> tile<4x2xi32>
  %c = cat %b, %b dim = 1 : tile<4x2xi32>, tile<4x2xi32> -> tile<4x4xi32>
  %zero = constant <i32: 0> : tile<i32>
  %d = extract %c[%zero, %zero] : tile<4x4xi32> -> tile<2x4xi32>
  %one = reshape %zero : tile<i32> -> tile<1x1xi32>
  %e = broadcast %one : tile<1x1xi32> -> tile<2x4xi32>
  %f = addi %d, %e : tile<2x4xi32>
  %g = reduce %f dim=1 identities=[0 : i32] : tile<2x4xi32> -> tile<2xi32>
  (%l: tile<i32>, %r: tile<i32>) {
    %s = addi %l, %r : tile<i32>
    yield %s : tile<i32>
  }
  %h = scan %f dim=0 reverse=true identities=[0 : i32] : tile<2x4xi32> -> tile<2x4xi32>
  (%p: tile<i32>, %q: tile<i32>) {
    %s = maxi %p, %q signed : tile<i32>
    yield %s : tile<i32>
  }
  %v, %w = reduce %h, %f dim=0 identities=[0 : i32, 1 : i32] : tile<2x4xi32>, tile<2x4xi32> -> tile<4xi32>, tile<4xi32>
  (%l0: tile<i32>, %r0: tile<i32>, %l1: tile<i32>, %r1: tile<i32>) {
    yield %l0, %l1 : tile<i32>, tile<i32>
  }
  %wide = itof %f signed : tile<2x4xi32> -> tile<2x4xf64>
  %highest = reduce %wide dim=1 identities=[0xFFF0000000000000 : f64] : tile<2x4xf64> -> tile<2xf64>
  (%l: tile<f64>, %r: tile<f64>) {
    %s = maxf %l, %r : tile<f64>
    yield %s : tile<f64>
  }
  %m = constant <i8: 3> : tile<16x32xi8>
  %n = constant <i8: -3> : tile<32x16xi8>
  %acc = constant <i32: 0> : tile<16x16xi32>
  %o = mmai %m, %n, %acc signed unsigned : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %t = get_global @table : tile<ptr<i32>>
  %x = assume div_by<16>, %t : tile<ptr<i32>>
  %y = assume bounded<0, ?>, %zero : tile<i32>
  %z = assume same_elements<[2, 4]>, %f : tile<2x4xi32>
  return
}
