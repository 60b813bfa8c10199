//! The recipe of a hidden parameter: the tensor map that the parameter receives.
//!
//! A recipe is a line `//!tile tensor-map …` of the envelope. `tile-link` compiles the recipe to host code, which the CUDA driver
//! calls when the arguments of the kernel change. `tile-sim` evaluates the recipe.
//!
//! ```text
//! //!tile tensor-map
//! (entry:"k",param:"k_param_3",map:(base:param(0),element:f16,dims:[param(1),const(64)],strides:[product(param(2),
//! const(2))],extent:[64,32],swizzle:bytes128,tf32:false))
//! ```

use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use tensormap::Map;

/// The key of a recipe line in the envelope.
pub const TENSOR_MAP: &str = "tensor-map";

/// A tensor map, and the hidden parameter of a kernel that receives the map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The name of the kernel.
    pub entry: String,
    /// The name of the kernel's hidden parameter.
    pub param: String,
    /// The description of the tensor map, as expressions over the arguments of the kernel.
    pub map: Map,
}

impl Recipe {
    /// Returns the recipe as a line of the envelope.
    pub fn to_line(&self) -> String {
        format!("//!tile {TENSOR_MAP} {}\n", ron::to_string(self).expect("a recipe can be written as RON"))
    }
    /// Parses the text after the key of a recipe line.
    pub fn parse(text: &str) -> Result<Recipe> {
        ron::from_str(text)
            .map_err(|error| Diagnostic::invalid("PTX021", format!("cannot parse the recipe of a tensor map: {error}")))
    }
    /// Returns the recipes in the lines of an envelope; other lines are skipped.
    pub fn all<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Vec<Recipe>> {
        let key = format!("//!tile {TENSOR_MAP} ");
        lines.into_iter().filter_map(|line| line.strip_prefix(&*key)).map(Recipe::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensormap::{DataType, Expr, Swizzle};

    #[test]
    fn recipes_are_lines_of_the_envelope() {
        let map = Map {
            base: Expr::Param(0),
            element: DataType::F16,
            dims: vec![Expr::Param(1), Expr::Const(30)],
            strides: vec![Expr::Param(2).product(Expr::Const(2))],
            extent: vec![64, 8],
            swizzle: Swizzle::Bytes128,
            tf32: false,
        };
        let recipe = Recipe { entry: "k".into(), param: "k_param_3".into(), map };
        let line = recipe.to_line();
        assert_eq!(Recipe::all(["//!tile ptx 1 final", line.trim_end()]).unwrap(), [recipe]);
        assert!(Recipe::parse("(entry:\"k\")").is_err());
        for deep in [format!("base:{}", "sum(".repeat(100_000)), format!("base:{}param(0)", "or(param(0),".repeat(100))] {
            assert!(Recipe::parse(&format!("(entry:\"k\",param:\"p\",map:({deep}")).is_err());
        }
    }
}
