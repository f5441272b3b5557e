//! The programs in the kernel, each property in a file.

mod bits;
mod buffers;
mod command_line;
mod common;
mod coupling;
mod foreign;
mod held;
mod hostile;
mod like_reno;
mod mp_fail;
mod older_kernels;
mod operate;
mod reneging;
mod replace;
mod robust;
mod shared_bottlenecks;
mod tell;
mod traffic;
