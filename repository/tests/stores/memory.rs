use crate::suite;

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_every_promise() {
    let store = xavantes_repository::in_memory();
    suite::run(&store).await;
    assert_ne!(store.realm(), xavantes_repository::in_memory().realm());
    suite::nothing_works_after_the_end(&store).await;
}
