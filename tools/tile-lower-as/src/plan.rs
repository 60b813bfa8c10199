//! What was decided about a function, pass by pass; `--print-after` prints it below the program.

use crate::access::Accesses;
use crate::copies::{Boxes, By, Copies, Readers};
use crate::homes::Homes;
use crate::kernel_spec;
use crate::operands;
use crate::products::{Family, Limits, Place, Product, Products};
use crate::room::TooMuch;
use crate::rows::Prefetch;
use crate::split;
use crate::stores::Stores;
use crate::strands;
use crate::tensor;
use base::diag::{Diagnostic, Result};
use base::ir::{Op, Operation};
use base::text::{TypeText, to_text};
use base::{Envelope, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tileaa::Function;
use tileas::{FunctionAttrs, Layout, budget};
use vocabulary::tile::element_count;

pub(crate) struct Plan {
    pub(crate) attrs: FunctionAttrs,
    pub(crate) warp_bits: usize,
    /// Whether strands of products may be two agents'.
    in_strands: bool,
    /// What the user wants all products made by.
    asked: Option<Family>,
    /// The blocks for which the author wishes room, where the user says nothing about them.
    pub(crate) wished: Option<u32>,
    pub(crate) accesses: Accesses,
    pub(crate) products: Products,
    /// Products that are made neither in tensor memory nor by warp groups, and why.
    refused: BTreeMap<Op, &'static str>,
    /// Loads of left operands that products in tensor memory get by way of threads.
    by_threads: BTreeSet<Op>,
    pub(crate) copies: Copies,
    /// Loads whose copies were found to have no room, once everything else that passes through shared memory was known.
    pub(crate) without_room: BTreeSet<Op>,
    /// The same of copies by boxes, whose slots are in use all through their loop: threads may still make them.
    pub(crate) boxes_without_room: BTreeSet<Op>,
    pub(crate) homes: Homes,
    pub(crate) stores: Stores,
}

/// What options say of the choices.
#[derive(Clone, Copy)]
pub(crate) struct Choices {
    pub(crate) level: u32,
    pub(crate) boxes: Boxes,
    pub(crate) prefetch: Prefetch,
}

impl Choices {
    pub(crate) fn of(envelope: &Envelope) -> Choices {
        Choices { level: envelope.options.opt_level(), boxes: Boxes::of(envelope), prefetch: Prefetch::of(envelope) }
    }
}

/// The products that are in tensor memory, and why scaled ones are not.
pub(crate) type Rehearsed = (BTreeSet<Op>, BTreeMap<Op, &'static str>);

impl Plan {
    /// The products that would be made in tensor memory if the function was so, with all the parts into which they are split; and why
    /// scaled ones would not.
    pub(crate) fn rehearsed(function: &Function, target: Target, options: Choices, envelope: &Envelope) -> Result<Rehearsed> {
        let (split, counts) = split::run_and_count(function, target, options.boxes);
        let mut plan = Plan::new(&split, target, &mut envelope.clone())?;
        plan.choose_products(&split, target);
        plan.choose_copies(&split, target, options);
        let made: BTreeSet<Op> = plan.products.in_tensor_memory().collect();
        let mut parts = operands::products(&split).into_iter();
        let whole = operands::products(function).into_iter().zip(counts);
        let are_made = |(op, count): (Op, u32)| {
            let all = parts.by_ref().take(count as usize).fold(true, |all, part| all & made.contains(&part));
            all.then_some(op)
        };
        // Scaled ones are in one part.
        let [scaled, in_parts] = [function, &split].map(operands::scaled_products);
        let scaled: Vec<(Op, Op)> = scaled.into_iter().zip(in_parts).collect();
        let unscaled = scaled.iter().filter_map(|(op, part)| Some((*op, *plan.products.unscaled.get(part)?))).collect();
        let scaled = scaled.into_iter().filter(|(_, part)| made.contains(part)).map(|(op, _)| op);
        Ok((whole.filter_map(are_made).chain(scaled).collect(), unscaled))
    }

    /// Only warps and accesses are decided.
    pub(crate) fn new(function: &Function, target: Target, envelope: &mut Envelope) -> Result<Plan> {
        Plan::of(function, true, target, envelope)
    }

    fn of(function: &Function, in_strands: bool, target: Target, envelope: &mut Envelope) -> Result<Plan> {
        let attrs = kernel_spec::resolve(function, in_strands, target, envelope)?;
        let wished = attrs.occupancy.filter(|_| envelope.options.get("occupancy").is_none());
        let warp_bits = attrs.warps.trailing_zeros() as usize;
        let accesses = Accesses::of(function, warp_bits);
        let homes = Homes::none(function, warp_bits);
        Ok(Plan {
            attrs,
            warp_bits,
            in_strands,
            asked: envelope.options.get("products").and_then(Family::named),
            wished,
            accesses,
            products: Products::default(),
            refused: BTreeMap::new(),
            by_threads: BTreeSet::new(),
            copies: Copies::default(),
            without_room: BTreeSet::new(),
            boxes_without_room: BTreeSet::new(),
            homes,
            stores: Stores::default(),
        })
    }

    /// How products are made. The author's wish for room for other blocks gives way where it leaves sums without tensor memory: by
    /// warps their products take longer than the other blocks could hide.
    pub(crate) fn choose_products(&mut self, function: &Function, target: Target) {
        let Some(wished) = self.wished else {
            self.products = self.products_beside(function, target, self.attrs.occupancy.unwrap_or(1));
            return;
        };
        let fewer = std::iter::successors(Some(wished), |blocks| (*blocks > 1).then_some(blocks / 2));
        let (mut most, mut all) = (0, None);
        for blocks in fewer {
            let products = self.products_beside(function, target, blocks);
            let (made, lack) = (products.in_tensor_memory().count(), products.lack_tensor_memory());
            if all.is_none() || made > most {
                (most, all) = (made, Some((blocks, products)));
            }
            if !lack {
                break;
            }
        }
        let (blocks, products) = all.expect("the wish is tried first");
        self.attrs.occupancy = Some(blocks);
        self.products = products;
    }

    /// How products are made where so many blocks run on a multiprocessor.
    fn products_beside(&self, function: &Function, target: Target, blocks: u32) -> Products {
        let limits = Limits {
            warp_bits: self.warp_bits as u32,
            registers: budget::registers(target, self.attrs.warps, blocks),
            columns: budget::tensor_columns(target, blocks),
            asked: self.asked,
            in_strands: self.in_strands,
        };
        Products::of(function, &self.accesses, target, limits, &self.refused, &self.by_threads)
    }

    /// Which loads are copied, and how. A left operand that products in tensor memory should have and no boxes bring goes there by way
    /// of threads (gathered rows); products of which the operands still are not where they must be are made in another way.
    pub(crate) fn choose_copies(&mut self, function: &Function, target: Target, options: Choices) {
        loop {
            if options.level >= 2 {
                self.copies = Copies::of(function, self, target, options);
            }
            let news = tensor::without_boxes(function, &self.products, &self.copies);
            if news.is_empty() {
                return;
            }
            let mut by_threads = Vec::new();
            for (op, why) in news {
                let untried = |load: &Op| why == tensor::NO_BOXES && !self.by_threads.contains(load);
                let left = self.left_without_boxes(function, op);
                match left.filter(untried) {
                    Some(load) => by_threads.push(load),
                    None => {
                        self.refused.insert(op, why);
                        left.iter().for_each(|load| _ = self.by_threads.remove(load));
                    }
                }
            }
            self.by_threads.extend(by_threads);
            self.choose_products(function, target);
        }
    }

    /// The load of a product's left operand, if no copy engine makes it.
    fn left_without_boxes(&self, function: &Function, product: Op) -> Option<Op> {
        let [lhs, ..] = operands::of_product(function, product);
        let by_boxes = |load: &Op| self.copies.get(*load).is_some_and(|copy| matches!(copy.by, By::Boxes(_)));
        operands::loaded_by(function, lhs).filter(|load| !by_boxes(load))
    }

    /// The layouts of all tiles that have one of their own, and the stores that copy engines make of those.
    pub(crate) fn choose_homes(&mut self, function: &Function, target: Target, options: Choices) {
        self.homes = Homes::of(function, &self.accesses, &self.products, &self.copies, self.warp_bits);
        if options.level >= 2 {
            self.stores = Stores::of(function, self, target, options);
        }
    }

    /// Whether two agents were to compute that shared memory has no room for.
    pub(crate) fn has_strands_without_room(&self, new: &tileas::Function, target: Target) -> bool {
        self.products.is_in_strands() && !strands::have_room(new, target)
    }

    /// Decides once more for one agent that computes.
    pub(crate) fn in_one(&mut self, function: &Function, target: Target, options: Choices, envelope: &Envelope) -> Result<()> {
        *self = Plan::of(function, false, target, &mut envelope.clone())?;
        self.choose_products(function, target);
        self.choose_copies(function, target, options);
        self.choose_homes(function, target, options);
        Ok(())
    }

    /// Decides once more without what has no room.
    pub(crate) fn without(&mut self, function: &Function, what: TooMuch, target: Target, options: Choices) {
        match what {
            TooMuch::Copy(load) => {
                let by_boxes = self.copies.get(load).is_some_and(|copy| matches!(copy.by, By::Boxes(_)));
                let found = if by_boxes { &mut self.boxes_without_room } else { &mut self.without_room };
                found.insert(load);
            }
            TooMuch::Product(op) => {
                self.refused.insert(op, "shared memory does not fit the operands that the instruction reads there");
                self.choose_products(function, target);
                // For copies of operands that are in registers after that there may be room.
                self.without_room.clear();
                self.boxes_without_room.clear();
            }
        }
        self.choose_copies(function, target, options);
        self.choose_homes(function, target, options);
    }

    /// Whether the scales of a product would be forgotten, since nothing that makes it takes any.
    pub(crate) fn loses_scales(&self, function: &Function) -> bool {
        let takes = |op: &Op| {
            let found = self.products.get(*op);
            matches!(found, Some(Product::Sync { scales: Some(_), .. } | Product::Tensor { scales: Some(_), .. }))
        };
        !operands::scaled_products(function).iter().all(takes)
    }

    /// A line for each op and each tile about which something is decided.
    pub(crate) fn print(&self, function: &Function) -> String {
        let mut out = format!("plan of {}: {} warps\n", to_text(&function.name), self.attrs.warps);
        for op in function.body.walk(function.region) {
            let node = &function.body.ops[op];
            let results: Vec<String> = node.results.iter().map(|value| value.to_string()).collect();
            let said = self.of_op(op);
            if !said.is_empty() {
                let _ = writeln!(out, "  {} {}: {}", node.kind.mnemonic(), results.join(", "), said.join("; "));
            }
            for result in &node.results {
                if let Some(home) = self.homes.get(*result) {
                    let _ = writeln!(out, "  home of {result}: {}", to_text(home));
                }
            }
        }
        out
    }

    fn of_op(&self, op: Op) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(access) = self.accesses.get(op) {
            said.push(format!("{} elements at a time in {}", 1u64 << access.vector_bits, to_text(&access.layout)));
        }
        said.extend(self.products.get(op).map(|product| match product {
            Product::Sync { atom, a, b, c, why, .. } => {
                let why = why.map_or(String::new(), |reason| format!("; {reason}"));
                format!("{}, a {}, b {}, sums {}{why}", atom.name, to_text(a), to_text(b), to_text(c))
            }
            Product::Group { atom, c, lhs, rhs } => from_buffers(atom.name, c, lhs, rhs),
            Product::Tensor { atom, c, lhs, rhs, scales } => {
                let scales = scales.iter().flat_map(|scales| scales.iter()).map(|layout| format!(", scales {}", to_text(layout)));
                from_buffers(atom.name, c, lhs, rhs) + &scales.collect::<String>()
            }
            Product::Shared { c } => format!("multiply-adds from buffers, sums {}", to_text(c)),
        }));
        said.extend(self.copies.get(op).map(|copy| {
            let readers = match copy.readers {
                Readers::Products if self.by_threads.contains(&op) => "read into registers, and on to tensor memory",
                Readers::Products => "products read it there",
                Readers::Registers => "read into registers",
            };
            format!("copied to shared memory {}, {readers}", copy.by)
        }));
        said.extend(self.stores.get(op).map(|store| format!("stored by boxes of {} bytes", store.map.box_bytes())));
        said.extend(self.stores.declined.iter().filter(|(store, _)| *store == op).map(|(_, why)| format!("not by boxes: {why}")));
        said.extend(self.copies.no_boxes.iter().filter(|(load, _)| *load == op).map(|(_, why)| format!("not by boxes: {why}")));
        said.extend(self.copies.declined.iter().filter(|(load, _)| *load == op).map(|(_, why)| format!("not copied: {why}")));
        said
    }

    /// Every product is made by what the user wants.
    pub(crate) fn keeps_what_was_asked(&self, function: &Function, envelope: &Envelope) -> Result<()> {
        let Some(asked) = self.asked else { return Ok(()) };
        let other = |(_, product): &(Op, &Product)| product.family() != Some(asked);
        let Some((op, product)) = self.products.all().find(other) else { return Ok(()) };
        let node = &function.body.ops[op];
        let operand = node.kind.operands().first().and_then(|value| function.body.ty(*value).tile());
        let of = operand.map_or(String::new(), |(elem, _)| format!(" of {}", elem.print()));
        let why = match product {
            Product::Sync { why: Some(why), .. } if asked.exists_on(envelope.target()?) => (*why).to_string(),
            _ => format!("{} does not have {}", envelope.target()?, asked.name()),
        };
        let message = format!("--products={}: {}{of} cannot use it: {why}", asked.name(), node.kind.mnemonic());
        Err(Diagnostic::unsupported("AS905", message).at_loc(&envelope.debug, node.loc))
    }

    /// Every home holds its tile.
    pub(crate) fn check(&self, function: &Function) -> Result<()> {
        for (value, node) in function.body.values.iter() {
            let tile = node.ty.tile().map(|(_, shape)| element_count(shape).trailing_zeros());
            if let (Some(home), Some(bits)) = (self.homes.get(value), tile) {
                let wrong = |why| Diagnostic::invalid("AS902", format!("the home of {value} does not hold its tile: {why}"));
                home.covers(bits).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

/// What is said of a product that finds its operands in buffers or registers.
fn from_buffers(name: &str, c: &Layout, lhs: &Place, rhs: &Place) -> String {
    let place = |place: &Place| match place {
        Place::Memory => "in a buffer".into(),
        Place::Transposed(layout) => format!("transposed by {}", to_text(layout)),
        Place::Registers(layout) => to_text(layout),
        Place::Tensor(layout) => format!("to tensor memory from {}", to_text(layout)),
    };
    let right = if matches!(rhs, Place::Memory) { String::new() } else { format!(", b {}", place(rhs)) };
    format!("{name}, a {}{right}, sums {}", place(lhs), to_text(c))
}
