// RUN: tile-read % | tile-lower-aa -O3 --stop-after=dead --format=text | grep -oE '(load|store)\(.*'
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%v, %l = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
%done = store_ptr_tko weak %p, %v token=%l : tile<ptr<i32>>, tile<i32> -> token
return
}
