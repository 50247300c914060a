//! CPIs of releases in a root file system of their own: compiled there without the tools of this machine, and
//! used for the complete life of an environment.

mod bosh;
mod compile;
mod disk;
mod hostile;
mod kills;
mod life;
mod machines;
mod registry_image;
mod setup;
mod shared_packages;
mod subordinate_ids;
mod vm_packages;
