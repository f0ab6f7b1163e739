//! Tests of shared objects.

use super::*;

fn call(method: Method, arguments: &[Value]) -> Call {
    Call { object: 0, method, arguments: arguments.to_vec() }
}

#[test]
fn every_change_can_be_undone() {
    for kind in SharedKind::ALL {
        let mut objects = Objects::new("p".into());
        objects.create(kind);
        let (key, value) = (Value::Int(1), Value::Int(7));
        let fill = match kind {
            SharedKind::Set => call(Method::Add, std::slice::from_ref(&key)),
            SharedKind::List => call(Method::Append, std::slice::from_ref(&value)),
            SharedKind::Map => call(Method::Put, &[key.clone(), value.clone()]),
            SharedKind::Counter => call(Method::Add, std::slice::from_ref(&value)),
        };
        objects.call(&fill).unwrap();
        for (name, method, _, most) in methods(kind) {
            let before = objects.clone();
            let arguments = [key.clone(), Value::Int(2)];
            let (_, undo) = objects.call_undoable(&call(*method, &arguments[..*most])).unwrap();
            let counted: u64 = objects.table.values().map(SharedObject::bytes).sum();
            assert_eq!(objects.bytes, counted, "{name} of {kind:?}");
            assert!(
                method.changes() || objects == before,
                "{name} of {kind:?} changes the object, but `changes` denies it"
            );
            objects.undo(undo);
            assert_eq!(objects, before, "{name} of {kind:?}");
        }
    }
}

#[test]
fn the_memory_of_calls_is_no_object() {
    let mut objects = Objects::new("p".into());
    objects.create(SharedKind::Counter);
    let add = call(Method::Add, &[]);
    objects.remember_call(7, 1, &add, &Ok(Value::Int(1)));
    objects.remember_call(7, 2, &add, &Ok(Value::Int(2)));
    objects.remember_call(7, 2, &call(Method::Add, &[Value::Int(9)]), &Ok(Value::Int(2)));
    assert_eq!(objects.bytes, objects.table.values().map(SharedObject::bytes).sum::<u64>());
    assert_eq!((objects.len(), objects.is_empty()), (1, false));
    assert_eq!(objects.remembered_answer(7, 1, &add), Some(&Ok(Value::Int(1))));
    assert_eq!(objects.remembered_answer(7, 1, &call(Method::Add, &[Value::Int(2)])), None);
    for method in [Method::Clear, Method::Size, Method::Add] {
        let hostile = Call { object: CALLS, ..call(method, &[]) };
        assert!(objects.call(&hostile).unwrap_err().contains("no longer exists"));
    }
    let reference = SharedRef { kind: SharedKind::Map, home: "p".into(), id: CALLS };
    assert_eq!(objects.content(&reference), None);
    objects.remove(CALLS);
    assert!(objects.remembered_answer(7, 1, &add).is_some());
    objects.forget_calls(7);
    assert_eq!((objects.table.len(), objects.bytes), (1, OBJECT_BYTES));
}

#[test]
fn objects_do_not_hold_objects() {
    let mut objects = Objects::new("p".into());
    let set = objects.create(SharedKind::Set);
    let nested = Value::from(vec![Value::Shared(set)]);
    assert!(objects.call(&call(Method::Add, &[nested])).unwrap_err().contains("cannot hold another"));
}
