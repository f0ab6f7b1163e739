use std::sync::Arc;

use super::*;

#[test]
fn types_accept_what_loses_nothing_and_refuse_the_rest() {
    assert_eq!(Type::Int.accept(Value::Float(3.0)), Ok(Value::Int(3)));
    assert!(Type::Int.accept(Value::Float(3.5)).is_err());
    assert!(Type::Int.accept(Value::Float(1e17)).unwrap_err().contains("2^53"));
    assert_eq!(Type::Float.accept(Value::Int(2)), Ok(Value::Float(2.0)));
    assert!(Type::Float.accept(Value::Int(i64::MAX)).is_err());
    assert!(Type::String.accept(Value::Int(2)).unwrap_err().contains("expected string, got int 2"));
    assert_eq!(Type::Map.accept(Value::from(vec![])), Ok(Value::Map(Arc::default())));
    assert!(Type::Shared(SharedKind::Set).parse("{}").is_err());
}

#[test]
fn values_survive_json() {
    let text = r#"{"a":[1,2.5,null,true,"x"],"b":{"$bytes":"00ff"},"c":{"$float":"NaN"},"d":9223372036854775807}"#;
    let value = Value::try_from(serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap();
    assert_eq!(Value::try_from(value.to_json()).unwrap(), value);
    let Value::Map(map) = &value else { panic!("not a map") };
    assert_eq!(map["b"], Value::Bytes(vec![0, 255].into()));
    assert_eq!(map["d"], Value::Int(i64::MAX));
}

#[test]
fn files_survive_json_and_are_what_is_in_them() {
    let digest = "0f".repeat(32);
    let text = format!(
        r#"[{{"$file":"source://a/b"}},{{"$directory":{{"name":"d","digest":"{digest}","size":5,"holders":["a:1"]}}}},
           {{"$file":{{"name":"x","digest":"{digest}","size":0,"executable":true,"holders":[]}}}}]"#
    );
    let value = Value::try_from(serde_json::from_str::<serde_json::Value>(&text).unwrap()).unwrap();
    assert_eq!(Value::try_from(value.to_json()).unwrap(), value);
    let mut seen = Vec::new();
    value.each_file(&mut |file| seen.push(file.clone()));
    assert_eq!(seen.len(), 3);
    let mut moved = (*seen[1]).clone();
    assert_eq!(moved.content.as_ref().unwrap().holders, ["a:1".into()]);
    moved.content.as_mut().unwrap().holders.clear();
    assert_eq!(moved, *seen[1]);
    let wrong = serde_json::json!({ "$file": { "name": "x", "digest": "beef", "size": 1 } });
    assert!(Value::try_from(wrong).unwrap_err().contains("not a digest"));
}

#[test]
fn json_beyond_64_bits_is_refused() {
    let json = serde_json::from_str::<serde_json::Value>("18446744073709551615").unwrap();
    assert!(Value::try_from(json).is_err());
}
