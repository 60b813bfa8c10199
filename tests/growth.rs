//! The growth of each stage's run time with its input. `scripts/growth` generates the programs, prints the table and reports
//! failures.

use std::process::Command;
use tests::{root, tool, tools_folder};

#[test]
fn no_stage_takes_quadratic_time() {
    ["tile-read", "tile-lower-aa", "tile-lower-as", "tile-sched", "tile-ptx"].iter().for_each(|name| _ = tool(name));
    let ran = Command::new(root().join("scripts/growth")).arg(tools_folder()).arg("--quick").output().unwrap();
    let table = String::from_utf8_lossy(&ran.stdout);
    println!("{table}");
    assert!(ran.status.success(), "{table}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(table.contains("loops in a row") && table.contains("tile elements"));
}
