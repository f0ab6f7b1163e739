//! Uploads that are announced and not sent.

use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Status};
use xavantes_hostile::{block_on, connect};
use xavantes_proto::v1;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_tests::Grid;

const MIB: u64 = 1 << 20;

fn header(digest: [u8; 32], size: u64) -> v1::PutChunk {
    let header = v1::PutHeader { digest: digest.to_vec(), size, offset: 0 };
    v1::PutChunk { header: Some(header), chunk: None }
}

/// Announces an object, and sends nothing of it until the returned task is dropped.
fn announce(channel: &Channel, number: u8, size: u64) -> tokio::task::JoinHandle<Result<(), Status>> {
    let mut client = FilesClient::new(channel.clone());
    let chunks = tokio_stream::once(header([number; 32], size)).chain(tokio_stream::pending());
    tokio::spawn(async move { client.put(chunks).await.map(|_| ()) })
}

#[test]
fn announced_uploads_take_no_room_from_others() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &["--files-mib", "64"]);
    let file = grid.write("data.bin", &"x".repeat(40 << 20));
    let document = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><IN_PARAMETER TYPE="file" NAME="f"/><BODY/></PROCESS_TYPE></XAVANTES>"#;
    let document = grid.write("file.xml", document);
    block_on(async {
        let channel = connect(&address).await;
        let announced: Vec<_> = (0..20).map(|number| announce(&channel, number, 60 * MIB)).collect();
        let refused = announce(&channel, 99, 19 << 30).await.expect("it ends").unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "larger than the store: {refused:?}");
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert!(announced.iter().all(|upload| !upload.is_finished()), "they wait for chunks");
        let submitted = grid.cli(&address, &["submit", &document, "-p", &format!("f={file}"), "--wait"]);
        assert_eq!(submitted.code, 0, "{submitted:?}");
        announced.iter().for_each(|upload| upload.abort());
    });
}

#[test]
fn too_many_uploads_at_once_are_refused() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    block_on(async {
        let channel = connect(&address).await;
        let uploads: Vec<_> = (0..100).map(|number| announce(&channel, number, MIB)).collect();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let mut refused = 0;
        for upload in uploads {
            match upload.is_finished() {
                true => {
                    let status = upload.await.expect("it ends").unwrap_err();
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                    refused += 1;
                }
                false => upload.abort(),
            }
        }
        assert_eq!(refused, 36, "64 uploads are taken");
    });
    grid.cli(&address, &["list"]).ok();
}
