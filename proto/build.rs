//! Compiles the protocol without protoc, and keeps its description for reflection.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=xavantes");
    let files = ["value", "reason", "activity", "coordinator", "group", "files"]
        .map(|name| format!("xavantes/v1/{name}.proto"));
    let descriptors = protox::compile(files, ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    // Chunks of files are not copied when they are taken apart; what few answers have takes no room in the others.
    tonic_prost_build::configure()
        .build_transport(true)
        .bytes(".xavantes.v1.Chunk")
        .boxed(".xavantes.v1.Answer.history")
        .boxed(".xavantes.v1.Answer.usage")
        .compile_fds(descriptors)?;
    Ok(())
}
