//! A register of a warp: one value per lane.
//!
//! Values are zero-extended to 64 bits for every register type. A predicate is 0 or 1.

/// Number of lanes of a warp.
pub const WARP_SIZE: usize = 32;
/// The lane mask with all lanes.
pub(crate) const ALL_LANES: u32 = u32::MAX;
/// The value of a register in each lane.
pub type Lanes = [u64; WARP_SIZE];

/// The function of an element-wise instruction with up to four sources.
pub type LaneFn = Box<dyn Fn(&[&Lanes; 4], &mut Lanes) + Send + Sync>;

/// Returns a function that applies `f` to the first source, lane by lane.
pub(crate) fn map1(f: impl Fn(u64) -> u64 + Send + Sync + 'static) -> LaneFn {
    Box::new(move |sources, out| {
        for lane in 0..WARP_SIZE {
            out[lane] = f(sources[0][lane]);
        }
    })
}

/// Returns a function that applies `f` to the first two sources, lane by lane.
pub(crate) fn map2(f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> LaneFn {
    Box::new(move |sources, out| {
        for lane in 0..WARP_SIZE {
            out[lane] = f(sources[0][lane], sources[1][lane]);
        }
    })
}

/// Returns a function that applies `f` to the first three sources, lane by lane.
pub(crate) fn map3(f: impl Fn(u64, u64, u64) -> u64 + Send + Sync + 'static) -> LaneFn {
    Box::new(move |sources, out| {
        for lane in 0..WARP_SIZE {
            out[lane] = f(sources[0][lane], sources[1][lane], sources[2][lane]);
        }
    })
}

/// Returns a function that applies `f` to the four sources, lane by lane.
pub(crate) fn map4(f: impl Fn(u64, u64, u64, u64) -> u64 + Send + Sync + 'static) -> LaneFn {
    Box::new(move |sources, out| {
        for lane in 0..WARP_SIZE {
            out[lane] = f(sources[0][lane], sources[1][lane], sources[2][lane], sources[3][lane]);
        }
    })
}

/// Iterates over the lanes of a mask, lowest first.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut remaining_mask = mask;
    std::iter::from_fn(move || {
        let lane = remaining_mask.trailing_zeros();
        remaining_mask &= remaining_mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// Returns the mask of lanes with a non-zero value.
pub(crate) fn mask_of(values: &Lanes) -> u32 {
    values.iter().enumerate().fold(0, |mask, (lane, &value)| mask | u32::from(value != 0) << lane)
}
