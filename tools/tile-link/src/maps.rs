//! Determines the tensor maps of a kernel's hidden parameters, and the offsets of the kernel's parameters.
//!
//! PTX declares a hidden parameter as 128 bytes. A recipe in the envelope describes its tensor map: expressions of the visible
//! parameters. The driver calls the host object's function with the parameters in the layout of the constant bank. Offsets of
//! parameters are relative to the first parameter.

use base::Target;
use base::diag::{Diagnostic, ResourceKind, Result};
use ptx::tensor_map::Recipe;
use tensormap::Map;

/// The tensor maps of one kernel, which its function in the host object fills.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KernelMaps {
    /// The visible parameters, from which the maps are computed.
    pub(crate) params: Vec<Param>,
    /// For each map, the offset of its hidden parameter in bytes, and the map.
    pub(crate) maps: Vec<(u32, Map)>,
}

/// A visible parameter: its offset and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Param {
    pub(crate) at: u32,
    pub(crate) bytes: u32,
}

/// Alignment of hidden parameters in the constant bank, in bytes.
const HIDDEN_PARAM_ALIGN: u32 = 64;
/// Maximum total size of all parameters of a kernel, in bytes.
const MAX_PARAM_BYTES: u64 = 32764;

impl KernelMaps {
    /// Returns the maps of each kernel in a PTX file, in text order, from the recipes of the envelope.
    pub(crate) fn parse(text: &str, recipes: &[Recipe], target: Option<Target>) -> Result<Vec<KernelMaps>> {
        let module = ptx::parse(text)?;
        let kernels = module.items.iter().filter_map(|item| match item {
            ptx::Item::Function(function) if function.entry => Some(function),
            _ => None,
        });
        kernels.map(|kernel| KernelMaps::new(kernel, recipes, target)).collect()
    }

    /// Lays out the parameters of a kernel in the constant bank, and finds the recipe of each hidden parameter.
    fn new(kernel: &ptx::Function, recipes: &[Recipe], target: Option<Target>) -> Result<KernelMaps> {
        let unsupported = |message: String| Err(Diagnostic::unsupported("LNK022", format!("kernel '{}': {message}", kernel.name)));
        let mut kernel_maps = KernelMaps::default();
        if !kernel.params.iter().any(|param| param.hidden) {
            return Ok(kernel_maps);
        }
        let Some(bank_start) = target.map(|target| target.parameter_offset) else {
            return unsupported("the offsets of hidden parameters on its target are unknown".into());
        };
        let mut bank_end = bank_start;
        for param in &kernel.params {
            let needed_bytes = u64::from(bank_end - bank_start).saturating_add(param.bytes().unwrap_or(u64::MAX));
            if needed_bytes > MAX_PARAM_BYTES {
                let too_large = unsupported(format!("its parameters up to '{}' take too many bytes", param.name));
                return too_large.map_err(|error| error.exceeds(ResourceKind::Parameters, needed_bytes, MAX_PARAM_BYTES));
            }
            let bytes = param.bytes().unwrap_or(0) as u32;
            let align = if param.hidden { HIDDEN_PARAM_ALIGN } else { param.align.unwrap_or(1).max(param.ty.bytes()).max(1) };
            let at = bank_end.next_multiple_of(align);
            bank_end = at + bytes;
            if !param.hidden {
                kernel_maps.params.push(Param { at: at - bank_start, bytes });
                continue;
            }
            let recipe = recipes.iter().find(|recipe| recipe.entry == kernel.name && recipe.param == param.name);
            let Some(recipe) = recipe.filter(|_| bytes as usize == tensormap::BYTES) else {
                return unsupported(format!("its hidden parameter '{}' has no tensor-map recipe", param.name));
            };
            kernel_maps.maps.push((at - bank_start, recipe.map.clone()));
        }
        for (_, map) in &kernel_maps.maps {
            map.check(kernel_maps.params.len())
                .map_err(|why| Diagnostic::invalid("LNK023", format!("kernel '{}': {why}", kernel.name)))?;
            let has_integer_size = |index: u32| matches!(kernel_maps.params[index as usize].bytes, 1 | 2 | 4 | 8);
            if let Some(index) = map.params().into_iter().find(|index| !has_integer_size(*index)) {
                return unsupported(format!("a tensor map depends on parameter {index}, which is not a number"));
            }
        }
        Ok(kernel_maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensormap::{DataType, Expr, Swizzle};

    fn ptx_with_hidden(hidden: &str) -> String {
        format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u32 p1, {hidden})\n{{ ret; }}\n.entry plain() {{ ret; }}\n"
        )
    }
    fn recipe(base: Expr) -> Recipe {
        let (dims, swizzle) = (vec![Expr::Param(1)], Swizzle::None);
        let map = Map { base, element: DataType::F32, dims, strides: Vec::new(), extent: vec![64], swizzle, tf32: false };
        Recipe { entry: "k".into(), param: "m".into(), map }
    }
    const HIDDEN: &str = ".hidden .param .align 64 .b8 m[128]";

    #[test]
    fn hidden_parameters_are_at_64_byte_boundaries_of_the_constant_bank() {
        let recipes = [recipe(Expr::Param(0))];
        for (target, at) in [("sm_90", 48), ("sm_120", 64)] {
            let maps = KernelMaps::parse(&ptx_with_hidden(HIDDEN), &recipes, Target::parse(target)).unwrap();
            assert_eq!(maps[0].params, [Param { at: 0, bytes: 8 }, Param { at: 8, bytes: 4 }]);
            assert_eq!(maps[0].maps, [(at, recipes[0].map.clone())]);
            assert_eq!(maps[1], KernelMaps::default());
        }
    }

    #[test]
    fn hidden_parameters_that_no_host_code_can_fill_are_refused() {
        let target = Target::parse("sm_90");
        let error_code = |text: &str, recipes: &[Recipe], target| KernelMaps::parse(text, recipes, target).unwrap_err().code;
        let recipes = [recipe(Expr::Param(0))];
        assert_eq!(error_code(&ptx_with_hidden(HIDDEN), &[], target), "LNK022");
        assert_eq!(error_code(&ptx_with_hidden(HIDDEN), &recipes, None), "LNK022");
        assert_eq!(error_code(&ptx_with_hidden(".hidden .param .align 64 .b8 m[64]"), &recipes, target), "LNK022");
        assert_eq!(error_code(&ptx_with_hidden(&format!(".param .b8 big[40000], {HIDDEN}")), &recipes, target), "LNK022");
        assert_eq!(
            error_code(&ptx_with_hidden(&format!(".param .b8 wide[16], {HIDDEN}")), &[recipe(Expr::Param(2))], target),
            "LNK022"
        );
        assert_eq!(error_code(&ptx_with_hidden(HIDDEN), &[recipe(Expr::Param(2))], target), "LNK023");
    }
}
