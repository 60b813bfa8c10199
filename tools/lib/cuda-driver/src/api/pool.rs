//! Entry points for memory pools. The attributes of a pool have no effect, because no allocation uses the pool.

use super::{entry_points, read_from_client, write_to_client};
use crate::driver::driver;
use crate::handle::Handle;
use crate::handles::{Object, Pool};
use crate::status::{Result, Status};
use std::ffi::{c_int, c_void};

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`. Attributes with a smaller number are flags of 32 bits. This attribute and the attributes
/// with a larger number are byte counts of 64 bits.
const RELEASE_THRESHOLD: c_int = 4;
/// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`.
const USED_CURRENT: c_int = 7;
/// `CU_MEMPOOL_ATTR_USED_MEM_HIGH`, the last attribute.
const LAST_ATTRIBUTE: c_int = 8;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_WRITE: c_int = 3;

/// Checks that a handle is the handle of a pool.
fn check_exists(pool: Handle) -> Result<()> {
    driver()?.tables().handles.pool(pool).map(drop)
}

entry_points! {
    fn cuMemPoolCreate(pool: *mut Handle, _properties: *const c_void) {
        write_to_client(pool, driver()?.tables().handles.add(Object::Pool(Pool::default())))
    }
    fn cuMemPoolDestroy(pool: Handle) {
        let driver = driver()?;
        if pool == driver.default_pool {
            return Err(Status::InvalidValue.into());
        }
        driver.tables().handles.remove(pool, |object| matches!(object, Object::Pool(_))).map(drop)
    }
    fn cuMemPoolTrimTo(pool: Handle, _bytes: usize) {
        check_exists(pool)
    }
    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *const c_void) {
        if !(1..=LAST_ATTRIBUTE).contains(&attribute) {
            return Err(Status::InvalidValue.into());
        }
        let mut tables = driver()?.tables();
        let value = match attribute {
            ..RELEASE_THRESHOLD => read_from_client(value.cast::<u32>())?.into(),
            _ => read_from_client(value.cast::<u64>())?,
        };
        tables.handles.pool_mut(pool)?.attributes.insert(attribute, value);
        Ok(())
    }
    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        let tables = driver()?.tables();
        let stored = tables.handles.pool(pool)?.attributes.get(&attribute).copied();
        match attribute {
            1..RELEASE_THRESHOLD => write_to_client(value.cast(), stored.unwrap_or(1) as u32),
            USED_CURRENT => write_to_client(value.cast(), tables.allocations.used()),
            RELEASE_THRESHOLD..=LAST_ATTRIBUTE => write_to_client(value.cast(), stored.unwrap_or(0)),
            _ => Err(Status::InvalidValue.into()),
        }
    }
    fn cuMemPoolSetAccess(pool: Handle, _access: *const c_void, _count: usize) {
        check_exists(pool)
    }
    fn cuMemPoolGetAccess(flags: *mut c_int, pool: Handle, _location: *const c_void) {
        check_exists(pool)?;
        write_to_client(flags, READ_WRITE)
    }
}
