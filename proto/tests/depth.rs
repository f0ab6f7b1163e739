//! Protobuf limits the nesting of messages. The deepest value of a process stays within that limit.

use std::sync::Arc;

use xavantes_model::value::{MAX_VALUE_DEPTH, Value};
use xavantes_proto::{Message, v1, value, value_from};

#[test]
fn the_deepest_value_fits_into_the_deepest_message() {
    let deepest = (0..MAX_VALUE_DEPTH)
        .fold(Value::Int(1), |inner, _| Value::Map(Arc::new([("in".into(), inner)].into_iter().collect())));
    let captured = v1::Captured { value: Some(value(&deepest)), ..v1::Captured::default() };
    let subtree = Some(v1::Subtree { captured: vec![captured], ..v1::Subtree::default() });
    let order = v1::WorkOrder { jobs: vec![v1::Job { subtree, ..v1::Job::default() }], ..v1::WorkOrder::default() };
    let mut read = v1::WorkOrder::decode(&*order.encode_to_vec()).expect("the nesting is within the limit of protobuf");
    let subtree = read.jobs.remove(0).subtree.expect("the message contains it");
    let arrived =
        subtree.captured.into_iter().next().and_then(|captured| captured.value).expect("the message contains it");
    assert_eq!(value_from(arrived), Ok(deepest));
}
