//! One piece of memory as the storage of two things, and memory that is declared zeroed without a promise.
use core::mem::MaybeUninit;
use freehold::base::carve::Storage;

fn main() {
    let mut bytes = [MaybeUninit::uninit(); 64];
    let one = Storage::from(&mut bytes[..]);
    let two = Storage::from(&mut bytes[..]);
    drop((one, two));
    let _ = Storage::zeroed(&mut bytes);
}
