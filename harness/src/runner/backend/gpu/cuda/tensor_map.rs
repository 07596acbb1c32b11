//! A tensor map of a launch plan, as CUDA's driver encodes it.

use std::ffi::c_void;

use cudarc::driver::sys::{
    self, CUtensorMapDataType_enum as Data, CUtensorMapFloatOOBfill_enum as Fill,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Fetch,
    CUtensorMapSwizzle_enum as Permuted,
};
use kopt_schema::DType;
use kopt_schema::plan::{Outside, Promotion, Swizzle, TensorMap};

use super::super::driver::{Done, Encoded};
use super::error::Named as _;

/// Asks the driver, which reads nothing at the address.
pub(super) fn encode(map: &TensorMap, address: u64) -> Done<Encoded> {
    let data = match map.dtype {
        DType::F32 => Data::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::Bf16 => Data::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F16 => Data::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::I32 => Data::CU_TENSOR_MAP_DATA_TYPE_INT32,
    };
    let swizzle = match map.swizzle {
        Swizzle::None => Permuted::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Within32 => Permuted::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Within64 => Permuted::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Within128 => Permuted::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    let fetch = match map.l2 {
        Promotion::None => Fetch::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        Promotion::By64 => Fetch::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        Promotion::By128 => Fetch::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        Promotion::By256 => Fetch::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    };
    let fill = match map.fill {
        Outside::Zero => Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        Outside::Nan => Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    };
    let (sizes, strides, tile) = (whole(&map.sizes), whole(&map.strides), whole(&map.tile));
    // Every element along each size.
    let steps = [1u32; TensorMap::MOST_SIZES];
    let rank = map.sizes.len().min(TensorMap::MOST_SIZES) as u32;
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the four lists have the most entries that a rank can ask for, and stay as long as the call; the map is
    // written to a variable of this frame, aligned as its type says. The address is not followed.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            data,
            rank,
            address as usize as *mut c_void,
            sizes.as_ptr(),
            strides.as_ptr(),
            tile.as_ptr(),
            steps.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            fetch,
            fill,
        )
    }
    .of("cuTensorMapEncodeTiled")
    .map_err(|refused| refused.at(&format!("tensor map `{}`", map.name)))?;
    Ok(Encoded(encoded.opaque))
}

/// A list with an entry for every size that a map can have; those beyond its rank are not looked at.
fn whole<T: Copy + Default>(numbers: &[T]) -> [T; TensorMap::MOST_SIZES] {
    let mut all = [T::default(); TensorMap::MOST_SIZES];
    for (to, from) in all.iter_mut().zip(numbers) {
        *to = *from;
    }
    all
}
