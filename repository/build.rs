//! Compiles the crate again when a migration was added.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
