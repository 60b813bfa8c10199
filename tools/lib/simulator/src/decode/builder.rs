//! Program construction: resolves names, and assigns register slots, label indices and addresses.

mod memory_variables;
mod operand_slots;

use crate::address_space::{GLOBALS_BASE, SHARED_START};
use crate::fault::{Fault, Result};
use crate::program::*;
use ptx::{Function, Instruction, Item, Module, RegisterName, Statement, Type};
use std::collections::{BTreeMap, HashMap};

/// Maximum shared memory of a CTA, in bytes: the shared memory of an SM of sm_90 and sm_100.
const SHARED_LIMIT: u64 = 228 << 10;
/// Maximum local memory of a thread, in bytes (CUDA Programming Guide, technical specifications).
const LOCAL_LIMIT: u64 = 512 << 10;
/// Maximum number of CTAs per cluster: the non-portable cluster size of CUDA.
const CLUSTER_LIMIT: u32 = 16;
/// Maximum depth of nested calls. Decoding inlines calls, so a recursive function exceeds it.
const CALL_DEPTH_LIMIT: usize = 32;
/// Maximum number of decoded instructions. Inlining a call repeats the instructions of the function.
const CODE_LIMIT: usize = 4 << 20;
/// Maximum size of all global variables together, in bytes.
const GLOBAL_LIMIT: u64 = 256 << 20;
/// Maximum address range of global variables, in bytes. The range is larger than `GLOBAL_LIMIT` because of alignment gaps.
const GLOBALS_SPAN_LIMIT: u64 = 1 << 40;

/// Launch sizes that the PTX text does not contain.
#[derive(Clone, Copy, Default)]
pub struct LaunchSizes {
    /// Threads per CTA along x, y and z.
    pub block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory per CTA.
    pub dynamic_shared: Option<u32>,
}

/// The addresses of variables of the module that the caller has in memory, by name.
pub type VariableAddresses = BTreeMap<String, u64>;

/// The declared entity to which a name of the PTX text refers.
#[derive(Clone, Debug)]
enum Binding {
    Register {
        slot: RegSlot,
        ty: Type,
    },
    /// A variable, with its address in its state space.
    Variable {
        address: u64,
    },
    /// A shared variable. Its generic address depends on the CTA.
    Shared {
        address: u64,
    },
    /// A `.param` variable of a call, which the decoder places in a register.
    Argument {
        slot: RegSlot,
    },
    /// A `.param` byte array of a call, which the decoder places in local memory.
    Bytes(ByteArray),
    /// A label, as an index into `Builder::labels`.
    Label(u32),
    /// A `.branchtargets` list, as indices into `Builder::labels`.
    Targets(Vec<u32>),
}

/// A byte array in local memory that passes a structure to or from a called function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ByteArray {
    address: u64,
    pub(super) bytes: u64,
}

/// The names that one block of PTX declares.
#[derive(Default)]
pub(super) struct Scope {
    bindings: HashMap<String, Binding>,
    /// Register ranges such as `%r<100>`: the type and the count, by name prefix.
    ranges: HashMap<String, (Type, u32)>,
}

/// A program under construction.
pub(super) struct Builder<'m> {
    /// The functions of the module, by name.
    functions: HashMap<&'m str, &'m Function>,
    /// The open scopes, outermost first. The first scope has the names of the module.
    scopes: Vec<Scope>,
    /// For each label, its name and the index of the instruction after it. The index is `None` until the decoder reaches the label.
    labels: Vec<(String, Option<u32>)>,
    code: Vec<Instr>,
    /// The distinct opcodes with their modifiers.
    opcodes: Vec<String>,
    /// The index in `opcodes` of each opcode.
    opcode_index: HashMap<String, u32>,
    /// The line of the current instruction in the PTX text.
    line: u32,
    /// The index in `opcodes` of the current instruction.
    opcode: u32,
    /// The predicate register of the current guard. The flag is true for a negated guard.
    guard: Option<(RegSlot, bool)>,
    slot_count: u32,
    register_bits: Vec<u8>,
    /// The register slot of each constant value.
    constants: BTreeMap<u64, RegSlot>,
    /// The register slot of each special register, such as `%tid.x`.
    specials: BTreeMap<Special, RegSlot>,
    /// The slot of the carry flag, if an instruction uses the flag.
    carry: Option<RegSlot>,
    /// Whether the `tcgen05` instructions so far have `cta_group::2`. `None` before the first of them. The ISA forbids a kernel to
    /// mix both `cta_group` modifiers.
    pub(super) uses_cta_pair: Option<bool>,
    params: Vec<ParamField>,
    param_bytes: u32,
    shared_bytes: u64,
    local_bytes: u64,
    globals: Vec<GlobalVariable>,
    /// The end of the last variable in `globals` whose address the builder selected.
    globals_end: u64,
    variable_addresses: &'m VariableAddresses,
    sizes: LaunchSizes,
    /// The end labels of the functions that the decoder is inlining, outermost call first.
    inlined_ends: Vec<u32>,
}

impl<'m> Builder<'m> {
    /// Returns a builder with the declared variables of the module and the parameters of a kernel.
    pub(super) fn new(
        module: &'m Module,
        function: &'m Function,
        sizes: LaunchSizes,
        addresses: &'m VariableAddresses,
    ) -> Result<Self> {
        let mut builder = Builder::of_module(module, sizes, addresses)?;
        builder.scopes.push(Scope::default());
        for param in &function.params {
            builder.declare_param(param)?;
        }
        Ok(builder)
    }

    /// Returns a builder with the declared variables of the module.
    pub(super) fn of_module(module: &'m Module, sizes: LaunchSizes, variable_addresses: &'m VariableAddresses) -> Result<Self> {
        let mut builder = Builder {
            functions: HashMap::new(),
            scopes: vec![Scope::default()],
            labels: Vec::new(),
            code: Vec::new(),
            opcodes: Vec::new(),
            opcode_index: HashMap::new(),
            line: 0,
            opcode: 0,
            guard: None,
            slot_count: 1,
            register_bits: Vec::new(),
            constants: BTreeMap::from([(0, 0)]),
            specials: BTreeMap::new(),
            carry: None,
            uses_cta_pair: None,
            params: Vec::new(),
            param_bytes: 0,
            // Dynamic shared memory comes first, so that its address does not depend on later declarations.
            shared_bytes: u64::from(SHARED_START) + u64::from(sizes.dynamic_shared.unwrap_or(0)),
            local_bytes: 0,
            globals: Vec::new(),
            globals_end: GLOBALS_BASE,
            variable_addresses,
            sizes,
            inlined_ends: Vec::new(),
        };
        if builder.shared_bytes > SHARED_LIMIT {
            return Err(Fault::new("SIM002", "the kernel exceeds the shared memory of a CTA"));
        }
        let mut initialised = Vec::new();
        for item in &module.items {
            match item {
                Item::Variable(variable) => {
                    builder.declare_variable(variable)?;
                    initialised.push(variable);
                }
                Item::Function(other) => drop(builder.functions.insert(&other.name, other)),
                _ => {}
            }
        }
        for variable in initialised {
            builder.initialise_variable(variable)?;
        }
        Ok(builder)
    }

    /// Returns the declared variables in global and constant memory.
    pub(super) fn into_variables(self) -> Vec<GlobalVariable> {
        self.globals
    }

    /// Resolves the labels and returns the program of this kernel.
    pub(super) fn finish(mut self, function: &Function) -> Result<Program> {
        let mut targets = Vec::new();
        for (name, position) in &self.labels {
            targets.push(position.ok_or_else(|| Fault::new("SIM002", format!("label '{name}' is not defined")))?);
        }
        for instr in &mut self.code {
            match &mut instr.op {
                Op::Branch { target } => *target = targets[*target as usize],
                Op::BranchIndirect { targets: labels, .. } => labels.iter_mut().for_each(|t| *t = targets[*t as usize]),
                _ => {}
            }
        }
        let dims = |name: &str| -> Option<[u32; 3]> {
            let values = function.directive(name)?;
            let extent = |index: usize| values.get(index).map_or(1, |&value| value.clamp(0, i64::from(u32::MAX)) as u32);
            Some([extent(0), extent(1), extent(2)])
        };
        let volume = |dims: [u32; 3]| dims.iter().try_fold(1u32, |product, &dim| product.checked_mul(dim)).unwrap_or(0);
        let block = match (dims("reqntid"), self.sizes.block) {
            (Some(required), Some(block)) if required != block => {
                let message = format!("'{}' requires CTAs of {required:?} threads, not {block:?}", function.name);
                return Err(Fault::new("SIM002", message));
            }
            (required, block) => required.or(block).or(dims("maxntid")).unwrap_or([128, 1, 1]),
        };
        if !(1..=1024).contains(&volume(block)) {
            return Err(Fault::new("SIM002", format!("a CTA of {block:?} threads")));
        }
        let cluster = dims("reqnctapercluster").unwrap_or([1; 3]);
        if !(1..=CLUSTER_LIMIT).contains(&volume(cluster)) {
            return Err(Fault::new("SIM002", format!("a cluster of {cluster:?} CTAs")));
        }
        Ok(Program {
            entry: function.name.clone(),
            code: self.code,
            opcodes: self.opcodes,
            register_bits: {
                let mut register_bits = self.register_bits;
                register_bits.resize(self.slot_count as usize, 0);
                register_bits
            },
            slot_count: self.slot_count,
            constants: self.constants.into_iter().map(|(value, slot)| (slot, value)).collect(),
            specials: self.specials.into_iter().map(|(special, slot)| (slot, special)).collect(),
            params: self.params,
            param_bytes: self.param_bytes,
            shared_bytes: self.shared_bytes as u32,
            local_bytes: self.local_bytes as u32,
            globals: self.globals,
            labels: self.labels.into_iter().zip(targets).map(|((name, _), position)| (position, name)).collect(),
            cta_threads: volume(block),
            block_dim: block,
            dynamic_shared_bytes: self.sizes.dynamic_shared.unwrap_or(0),
            cta_memory_bytes: dims("minperctamemory").map_or(0, |[bytes, ..]| bytes.into()),
            cluster_dim: cluster,
            grid_of_clusters: function.directive("blocksareclusters").is_some(),
        })
    }

    // Scopes and declarations.

    /// Opens a scope and declares its labels, so that branches can refer forward.
    pub(super) fn open_scope(&mut self, statements: &[Statement]) {
        let mut scope = Scope::default();
        for statement in statements {
            if let Statement::Label { name, .. } = statement {
                scope.bindings.insert(name.clone(), Binding::Label(self.labels.len() as u32));
                self.labels.push((name.clone(), None));
            }
        }
        self.scopes.push(scope);
    }
    /// Closes the innermost scope, so that its names are no longer visible.
    pub(super) fn close_scope(&mut self) {
        self.scopes.pop();
    }
    /// Returns the innermost open scope.
    fn innermost_scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a scope is open")
    }
    /// Binds a name in the innermost scope.
    fn bind(&mut self, name: &str, binding: Binding) {
        self.innermost_scope().bindings.insert(name.to_owned(), binding);
    }
    /// Defines a label of the PTX at the current instruction.
    pub(super) fn place_label(&mut self, name: &str) -> Result<()> {
        let here = self.code.len() as u32;
        let label = self.label_index(name)?;
        self.labels[label as usize].1 = Some(here);
        Ok(())
    }
    /// Declares a `.branchtargets` list.
    pub(super) fn declare_targets(&mut self, name: &str, targets: &[String]) {
        let targets = targets.iter().filter_map(|target| self.label_index(target).ok()).collect();
        self.bind(name, Binding::Targets(targets));
    }
    /// Declares registers. A range such as `%r<100>` gets its slots on first use.
    pub(super) fn declare_registers(&mut self, ty: Type, names: &[RegisterName]) {
        for register in names {
            match register.count {
                Some(count) => drop(self.innermost_scope().ranges.insert(register.name.clone(), (ty, count))),
                None => {
                    let slot = self.allocate_register(ty);
                    self.bind(&register.name, Binding::Register { slot, ty });
                }
            }
        }
    }
    // Calls.

    /// Creates a label without a position. `name` is for messages.
    pub(super) fn new_label(&mut self, name: &str) -> u32 {
        self.labels.push((name.to_owned(), None));
        self.labels.len() as u32 - 1
    }
    /// Defines a label of [`Builder::new_label`] at the current instruction.
    pub(super) fn define_label(&mut self, label: u32) {
        self.labels[label as usize].1 = Some(self.code.len() as u32);
    }
    /// Returns the label to which `ret` branches in an inlined function. `None` outside inlined functions.
    pub(super) fn inlined_return_label(&self) -> Option<u32> {
        self.inlined_ends.last().copied()
    }
    /// Emits a branch to a label for the lanes whose guard is false, and clears the guard.
    pub(super) fn emit_branch_if_guard_is_false(&mut self, target: u32) {
        if let Some((slot, negated)) = self.guard {
            self.guard = Some((slot, !negated));
            self.emit(Op::Branch { target });
            self.guard = None;
        }
    }
    /// Returns the line and the opcode index of the current instruction.
    pub(super) fn line_and_opcode(&self) -> (u32, u32) {
        (self.line, self.opcode)
    }
    /// Sets the line and the opcode index for the next ops, and removes the guard.
    pub(super) fn set_line_and_opcode(&mut self, line: u32, opcode: u32) {
        (self.line, self.opcode, self.guard) = (line, opcode, None);
    }
    /// Starts the inlining of a function: hides the names of the caller and returns its scopes. `end` is the label at the end of
    /// the function. Returns `None` if calls nest too deeply or the program is too large.
    pub(super) fn open_function(&mut self, end: u32) -> Option<Vec<Scope>> {
        if self.inlined_ends.len() >= CALL_DEPTH_LIMIT || self.code.len() > CODE_LIMIT {
            return None;
        }
        self.inlined_ends.push(end);
        let caller = self.scopes.split_off(1);
        self.scopes.push(Scope::default());
        Some(caller)
    }
    /// Ends the inlining of a function and restores the scopes of the caller.
    pub(super) fn close_function(&mut self, caller: Vec<Scope>) {
        self.inlined_ends.pop();
        self.scopes.truncate(1);
        self.scopes.extend(caller);
    }
    /// Declares a parameter or result of an inlined function and returns its register.
    pub(super) fn declare_argument(&mut self, name: &str) -> RegSlot {
        let slot = self.allocate_temporary();
        self.bind(name, Binding::Argument { slot });
        slot
    }

    /// Binds a parameter or result of an inlined function to the caller's array. The array needs no copy, because the function only
    /// reads parameters, and the caller reads results after the call.
    pub(super) fn declare_byte_array(&mut self, name: &str, array: ByteArray) {
        self.bind(name, Binding::Bytes(array));
    }

    // Name lookup.

    /// Returns the binding of a name in the innermost scope that declares the name. `None` if no scope declares it.
    fn look_up(&mut self, name: &str) -> Option<Binding> {
        let prefix_length = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let register_number = name[prefix_length..].parse::<u32>().ok();
        for index in (0..self.scopes.len()).rev() {
            if let Some(binding) = self.scopes[index].bindings.get(name) {
                return Some(binding.clone());
            }
            if let (Some(register_number), Some(&(ty, count))) =
                (register_number, self.scopes[index].ranges.get(&name[..prefix_length]))
                && register_number < count
            {
                let binding = Binding::Register { slot: self.allocate_register(ty), ty };
                self.scopes[index].bindings.insert(name.to_owned(), binding.clone());
                return Some(binding);
            }
        }
        None
    }
    /// Returns the fault (the simulator's error) for a name that is not declared.
    fn undeclared(name: &str) -> Box<Fault> {
        Fault::new("SIM002", format!("'{name}' is not declared"))
    }
    /// Returns the index of a label in `labels`.
    pub(super) fn label_index(&mut self, name: &str) -> Result<u32> {
        match self.look_up(name) {
            Some(Binding::Label(label)) => Ok(label),
            _ => Err(Self::undeclared(name)),
        }
    }
    /// Returns the labels of a `.branchtargets` list, as indices into `labels`.
    pub(super) fn branch_targets(&mut self, name: &str) -> Result<Vec<u32>> {
        match self.look_up(name) {
            Some(Binding::Targets(targets)) => Ok(targets),
            _ => Err(Self::undeclared(name)),
        }
    }
    /// Returns the address of a variable.
    fn variable_address(&mut self, name: &str) -> Result<u64> {
        match self.look_up(name) {
            Some(Binding::Variable { address } | Binding::Shared { address }) => Ok(address),
            _ => Err(Self::undeclared(name)),
        }
    }
    /// Returns the register of a call argument or result. `None` if the name has another kind of binding.
    pub(super) fn argument_slot(&mut self, name: &str) -> Option<RegSlot> {
        match self.look_up(name) {
            Some(Binding::Argument { slot }) => Some(slot),
            _ => None,
        }
    }
    /// Returns the byte array of a call argument or result. `None` if the name has another kind of binding.
    pub(super) fn byte_array(&mut self, name: &str) -> Option<ByteArray> {
        match self.look_up(name) {
            Some(Binding::Bytes(array)) => Some(array),
            _ => None,
        }
    }
    /// Returns the local-memory address of an access to a byte array of a call. `None` if the address has another base.
    pub(super) fn byte_array_address(&mut self, address: &ptx::Address) -> Option<Address> {
        let array = self.byte_array(address.base.as_ref()?)?;
        Some(Address { base: self.constant_slot(array.address), offset: address.offset })
    }
    /// Returns the function of the module with this name. `None` if the module defines no such function.
    pub(super) fn find_function(&self, name: &str) -> Option<&'m Function> {
        self.functions.get(name).copied()
    }

    /// Allocates a declared register. A 128-bit register has two slots of 64 bits, lower half first.
    fn allocate_register(&mut self, ty: Type) -> RegSlot {
        let slot = self.allocate_temporary();
        self.register_bits.resize(slot as usize, 0);
        self.register_bits.push(ty.bits().min(64) as u8);
        if ty == Type::B128 {
            self.allocate_temporary();
        }
        slot
    }
    /// Allocates a slot that no declared register uses.
    pub(super) fn allocate_temporary(&mut self) -> RegSlot {
        self.slot_count += 1;
        self.slot_count - 1
    }
    /// Returns the slot of the carry flag.
    pub(super) fn carry_slot(&mut self) -> RegSlot {
        let slot = self.carry.unwrap_or_else(|| self.allocate_temporary());
        self.carry = Some(slot);
        slot
    }
    /// Returns the register slot that contains a constant.
    pub(super) fn constant_slot(&mut self, value: u64) -> RegSlot {
        if let Some(&slot) = self.constants.get(&value) {
            return slot;
        }
        let slot = self.allocate_temporary();
        self.constants.insert(value, slot);
        slot
    }
    /// Returns the register slot that contains the value of a special register.
    fn special_slot(&mut self, special: Special) -> RegSlot {
        if let Some(&slot) = self.specials.get(&special) {
            return slot;
        }
        let slot = self.allocate_temporary();
        self.specials.insert(special, slot);
        slot
    }

    /// Returns the register slot that contains the address of a shared variable. The address depends on the CTA's rank in the
    /// cluster.
    fn shared_address(&mut self, address: u64) -> RegSlot {
        self.special_slot(Special::SharedAddress(address as u32))
    }

    // Instructions.

    /// Begins an instruction: sets its line, its guard and its opcode.
    pub(super) fn begin_instruction(&mut self, instruction: &Instruction) -> Result<()> {
        self.line = instruction.line.0;
        let name = instruction.full_name();
        self.opcode = match self.opcode_index.get(&name) {
            Some(&index) => index,
            None => {
                let index = self.opcodes.len() as u32;
                self.opcodes.push(name.clone());
                self.opcode_index.insert(name, index);
                index
            }
        };
        self.guard = None;
        if let Some(guard) = &instruction.guard {
            self.guard = Some((self.slot_of_name(&guard.register)?, guard.negated));
        }
        Ok(())
    }
    /// Removes the guard, so that the next ops have none.
    pub(super) fn clear_guard(&mut self) {
        self.guard = None;
    }
    /// Appends an op with the current guard, line and opcode.
    pub(super) fn emit(&mut self, op: Op) {
        self.code.push(Instr { guard: self.guard, op, line: self.line, opcode: self.opcode });
    }
}
