//! The store in memory.

use crate::suite;

#[tokio::test(flavor = "multi_thread")]
async fn memory_store_passes_the_suite() {
    let store = xavantes_repository::in_memory();
    suite::run(&store).await;
    assert_ne!(store.realm(), xavantes_repository::in_memory().realm());
    suite::calls_fail_after_shut_down(&store).await;
}
