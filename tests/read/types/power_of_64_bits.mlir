// RUN: tile-read %
entry @k(%f: tile<f32>, %n: tile<i64>) {
%x = fpowi %f, %n : tile<f32>, tile<i64>
return
}
