//! Ops that move elements: reshapes, permutations, broadcasts, pieces of tiles.

use crate::builder::Kind;
use crate::program::Generator;
use base::Scalar;
use base::ir::Value;
use tileir::Op;

impl Generator {
    pub(crate) fn reshape(&mut self, source: Value, from: &Kind, shape: &[i64]) -> Value {
        if from.shape == shape {
            return source;
        }
        let ty = self.build.tile(&Kind::new(from.scalar, shape));
        self.build.op(Op::Reshape { source }, ty)
    }

    pub(crate) fn reshaped(&mut self) {
        let (x, kind) = self.any();
        match self.random.below(5) {
            0 if kind.shape.len() > 1 => self.permute(x, &kind),
            1 => self.broadcast(x, &kind),
            2 if !kind.shape.is_empty() => self.extract(x, &kind),
            3 if !kind.shape.is_empty() => self.cat(x, &kind),
            _ => {
                let fitting: Vec<Vec<i64>> =
                    self.shapes.iter().filter(|shape| shape.iter().product::<i64>() == kind.count()).cloned().collect();
                if !fitting.is_empty() {
                    let shape = self.random.pick(&fitting);
                    let shaped = self.reshape(x, &kind, &shape);
                    self.add(shaped, Kind::new(kind.scalar, &shape));
                }
            }
        }
    }

    fn permute(&mut self, source: Value, kind: &Kind) {
        let mut permutation: Vec<i32> = (0..kind.shape.len() as i32).collect();
        let last = permutation.len() - 1;
        permutation.swap(self.random.below(last), last);
        let shape: Vec<i64> = permutation.iter().map(|dim| kind.shape[*dim as usize]).collect();
        let result = Kind::new(kind.scalar, &shape);
        let ty = self.build.tile(&result);
        let value = self.build.op(Op::Permute { permutation: permutation.into(), source }, ty);
        if !self.shapes.contains(&shape) {
            self.shapes.push(shape);
        }
        self.add(value, result);
    }

    /// Along a new dimension, or along all of them from a scalar.
    fn broadcast(&mut self, x: Value, kind: &Kind) {
        let fits = |shape: &&Vec<i64>| match kind.shape.len() {
            0 => !shape.is_empty(),
            1 => shape.len() == 2 && shape.contains(&kind.shape[0]),
            _ => false,
        };
        let fitting: Vec<Vec<i64>> = self.shapes.iter().filter(fits).cloned().collect();
        if fitting.is_empty() {
            return;
        }
        let shape = self.random.pick(&fitting);
        let mut narrow = vec![1; shape.len()];
        if let Some(extent) = kind.shape.first() {
            let dims: Vec<usize> = (0..shape.len()).filter(|dim| shape[*dim] == *extent).collect();
            narrow[self.random.pick(&dims)] = *extent;
        }
        let result = Kind::new(kind.scalar, &shape);
        let source = self.reshape(x, kind, &narrow);
        let ty = self.build.tile(&result);
        let value = if narrow == shape { source } else { self.build.op(Op::Broadcast { source }, ty) };
        self.add(value, result);
    }

    fn extract(&mut self, source: Value, kind: &Kind) {
        let dim = self.random.below(kind.shape.len());
        if kind.shape[dim] < 2 {
            return;
        }
        let mut shape = kind.shape.clone();
        let parts = if shape[dim] >= 4 && self.random.one_in(2) { 4 } else { 2 };
        shape[dim] /= parts;
        let indices = (0..shape.len()).map(|d| match d == dim {
            true => {
                let part = self.random.below(parts as usize) as i64;
                self.index_constant(part)
            }
            false => self.index_constant(0),
        });
        let indices: Vec<Value> = indices.collect();
        let result = Kind::new(kind.scalar, &shape);
        let ty = self.build.tile(&result);
        let value = self.build.op(Op::Extract { source, indices: indices.into() }, ty);
        self.add(value, result);
    }

    fn cat(&mut self, lhs: Value, kind: &Kind) {
        if kind.count() > 512 {
            return;
        }
        let (dim, rhs) = (self.random.below(kind.shape.len()), self.some(kind));
        let mut shape = kind.shape.clone();
        shape[dim] *= 2;
        let result = Kind::new(kind.scalar, &shape);
        let ty = self.build.tile(&result);
        let value = self.build.op(Op::Cat { dim: dim as i64, lhs, rhs }, ty);
        self.add(value, result);
    }

    /// A product whose sums are exact.
    pub(crate) fn product(&mut self) {
        let [m, n, k] = [0; 3].map(|_| 1i64 << (4 + self.random.below(2)));
        let lhs = self.some(&Kind::new(Scalar::I8, &[m, k]));
        let rhs = self.some(&Kind::new(Scalar::I8, &[k, n]));
        let result = Kind::new(Scalar::I32, &[m, n]);
        let acc = self.some(&result);
        let signs = [base::arith::Signedness::Signed, base::arith::Signedness::Unsigned];
        let (signedness_lhs, signedness_rhs) = (self.random.pick(&signs), self.random.pick(&signs));
        let ty = self.build.tile(&result);
        let value = self.build.op(Op::MmaI { signedness_lhs, signedness_rhs, lhs, rhs, acc }, ty);
        self.add(value, result);
    }
}
