// RUN: tile-read %
entry @k(%f: tile<f32>) {
%x = addi %f, %f : tile<f32>
return
}
