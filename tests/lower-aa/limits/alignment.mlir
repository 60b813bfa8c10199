// RUN: tile-lower-aa %
global @wide alignment = 2147483648 <i32: [1, 2]> : tile<2xi32>
entry @k() {
return
}
