//! The tensor maps of a kernel's hidden parameters, and the offsets of its parameters.
//!
//! PTX declares a hidden parameter as 128 bytes; a recipe in the envelope describes the map. The driver passes the parameters to
//! the host object's function in the layout of the constant bank. Offsets are relative to the first parameter.

use base::Target;
use base::diag::{Diagnostic, Result};
use ptx::tensor_map::Recipe;
use tensormap::Map;

/// The maps that the host object's function for a kernel fills.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Maps {
    /// The visible parameters, from which the maps are computed.
    pub(crate) params: Vec<Param>,
    /// Each map, with the offset of its hidden parameter.
    pub(crate) maps: Vec<(u32, Map)>,
}

/// A visible parameter: its offset and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Param {
    pub(crate) at: u32,
    pub(crate) bytes: u32,
}

/// Alignment of hidden parameters in the constant bank, in bytes.
const ALIGN: u32 = 64;
/// Maximum parameter size of a kernel, in bytes.
const MAX_BYTES: u64 = 32764;

impl Maps {
    /// The maps of all kernels of a PTX file, in order, from the recipes of its envelope.
    pub(crate) fn of(text: &str, recipes: &[Recipe], target: Option<Target>) -> Result<Vec<Maps>> {
        let module = ptx::parse(text)?;
        let kernels = module.items.iter().filter_map(|item| match item {
            ptx::Item::Function(function) if function.entry => Some(function),
            _ => None,
        });
        kernels.map(|kernel| Maps::of_kernel(kernel, recipes, target)).collect()
    }

    fn of_kernel(kernel: &ptx::Function, recipes: &[Recipe], target: Option<Target>) -> Result<Maps> {
        let refuse = |message: String| Err(Diagnostic::unsupported("LNK022", format!("kernel '{}': {message}", kernel.name)));
        let mut found = Maps::default();
        if !kernel.params.iter().any(|param| param.hidden) {
            return Ok(found);
        }
        let Some(start) = target.map(|target| target.parameter_offset) else {
            return refuse("the offsets of hidden parameters on its target are unknown".into());
        };
        let mut end = start;
        for param in &kernel.params {
            let bytes = param.bytes().filter(|bytes| u64::from(end - start) + bytes <= MAX_BYTES);
            let Some(bytes) = bytes.map(|bytes| bytes as u32) else {
                return refuse(format!("its parameters up to '{}' take too many bytes", param.name));
            };
            let align = if param.hidden { ALIGN } else { param.align.unwrap_or(1).max(param.ty.bytes()).max(1) };
            let at = end.next_multiple_of(align);
            end = at + bytes;
            if !param.hidden {
                found.params.push(Param { at: at - start, bytes });
                continue;
            }
            let recipe = recipes.iter().find(|recipe| recipe.entry == kernel.name && recipe.param == param.name);
            let Some(recipe) = recipe.filter(|_| bytes as usize == tensormap::BYTES) else {
                return refuse(format!("its hidden parameter '{}' has no tensor-map recipe", param.name));
            };
            found.maps.push((at - start, recipe.map.clone()));
        }
        for (_, map) in &found.maps {
            map.check(found.params.len())
                .map_err(|why| Diagnostic::invalid("LNK023", format!("kernel '{}': {why}", kernel.name)))?;
            let number = |index: u32| matches!(found.params[index as usize].bytes, 1 | 2 | 4 | 8);
            if let Some(index) = map.params().into_iter().find(|index| !number(*index)) {
                return refuse(format!("a tensor map depends on parameter {index}, which is not a number"));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensormap::{Element, Expr, Swizzle};

    fn ptx(hidden: &str) -> String {
        format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u32 p1, {hidden})\n{{ ret; }}\n.entry plain() {{ ret; }}\n"
        )
    }
    fn recipe(base: Expr) -> Recipe {
        let (dims, swizzle) = (vec![Expr::Param(1)], Swizzle::None);
        let map = Map { base, element: Element::F32, dims, strides: Vec::new(), extent: vec![64], swizzle, tf32: false };
        Recipe { entry: "k".into(), param: "m".into(), map }
    }
    const HIDDEN: &str = ".hidden .param .align 64 .b8 m[128]";

    #[test]
    fn maps_lie_where_the_bank_has_64_byte_boundaries() {
        let recipes = [recipe(Expr::Param(0))];
        for (target, at) in [("sm_90", 48), ("sm_120", 64)] {
            let maps = Maps::of(&ptx(HIDDEN), &recipes, Target::parse(target)).unwrap();
            assert_eq!(maps[0].params, [Param { at: 0, bytes: 8 }, Param { at: 8, bytes: 4 }]);
            assert_eq!(maps[0].maps, [(at, recipes[0].map.clone())]);
            assert_eq!(maps[1], Maps::default());
        }
    }

    #[test]
    fn what_no_code_can_fill_is_refused() {
        let target = Target::parse("sm_90");
        let code = |text: &str, recipes: &[Recipe], target| Maps::of(text, recipes, target).unwrap_err().code;
        let good = [recipe(Expr::Param(0))];
        assert_eq!(code(&ptx(HIDDEN), &[], target), "LNK022");
        assert_eq!(code(&ptx(HIDDEN), &good, None), "LNK022");
        assert_eq!(code(&ptx(".hidden .param .align 64 .b8 m[64]"), &good, target), "LNK022");
        assert_eq!(code(&ptx(&format!(".param .b8 big[40000], {HIDDEN}")), &good, target), "LNK022");
        assert_eq!(code(&ptx(&format!(".param .b8 wide[16], {HIDDEN}")), &[recipe(Expr::Param(2))], target), "LNK022");
        assert_eq!(code(&ptx(HIDDEN), &[recipe(Expr::Param(2))], target), "LNK023");
    }
}
