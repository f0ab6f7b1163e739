//! Large scripts, deep nesting and wide documents.

use std::time::{Duration, Instant};

use xavantes_model::definition::*;
use xavantes_model::diagnostic::Source as Text;
use xavantes_model::load::load;

use crate::support::{document, ints, main, named, nodes, run, variable};

/// Luau can compile every script that the loader accepts.
#[test]
fn the_largest_scripts_run() {
    let parameters = |count: usize| -> String {
        (0..count).map(|i| format!("<INOUT_PARAMETER NAME=\"p{i}\" TYPE=\"int\" OPTIONAL=\"true\"/>")).collect()
    };
    let process = |count: usize, code: &str, elements: &str| {
        let text = format!(
            "<PROCESS_TYPE NAME=\"P\">{}<BODY><PRE_CODE>{code}</PRE_CODE>{elements}</BODY></PROCESS_TYPE>",
            parameters(count)
        );
        load(&[Text::new("test.xml", document(&text))])
    };
    let sum = (0..150).map(|i| format!("p{i}")).collect::<Vec<_>>().join("+");
    let writes: String = (0..115).map(|i| format!("p{i} = {i} ")).collect();
    let elements: String = (0..95).map(|i| format!("<BLOCK NAME=\"b{i}\">{}</BLOCK>", parameters(1))).collect();
    let each_element: String = (0..70).map(|i| format!("b{i}.p0 = {i} ")).collect();
    let read_elements: String = (0..95).map(|i| format!("print(b{i}.p0) ")).collect();
    for (count, code, inputs) in
        [(150, format!("print({sum} == 5)"), 150), (115, writes, 115), (0, each_element, 70), (0, read_elements, 95)]
    {
        let program = process(count, &code, &elements).unwrap_or_else(|found| panic!("{found:#?}"));
        let script = nodes(&program)[0].pre_code.as_ref().unwrap();
        assert_eq!(script.inputs.len(), inputs);
        assert_eq!(run(&script.code, &ints(&vec![1; inputs])).len(), script.outputs.len());
    }
    let attributes: String = (0..100).map(|i| format!(" p{i}=\"${{p{i} + 1}}\"")).collect();
    let block = format!("<BLOCK NAME=\"b\"{attributes}>{}</BLOCK>", parameters(100));
    let program = process(100, "", &block).unwrap_or_else(|found| panic!("{found:#?}"));
    let script = named(&program, "b").bindings.as_ref().unwrap().script.as_ref().unwrap();
    assert_eq!(run(&script.code, &ints(&vec![1; 100])), ints(&vec![2; 100]));
}

/// Runs `work` on a stack of 2 MiB.
fn in_small_thread(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn deep_nesting_needs_no_deep_stack() {
    in_small_thread(|| {
        let depth = 990;
        let open: String = (0..depth).map(|i| format!("<BLOCK NAME=\"b{i}\"><PRE_CODE>print(n)</PRE_CODE>")).collect();
        let program = main(&format!("{open}{}", "</BLOCK>".repeat(depth)));
        assert_eq!(nodes(&program).len(), depth + 1);
        assert_eq!(nodes(&program)[1].end.index(), depth + 1);
        assert_eq!(named(&program, "b989").pre_code.as_ref().unwrap().inputs, [variable(0, 0)]);
        let nested: String = (0..990).map(|i| format!("<BLOCK NAME=\"b{i}\" bad=\"${{x\"><CODE/>")).collect();
        let text = document(&format!(
            "<PROCESS_TYPE NAME=\"P\"><BODY>{nested}{}</BODY></PROCESS_TYPE>",
            "</BLOCK>".repeat(990)
        ));
        assert!(load(&[Text::new("test.xml", text)]).is_err());
    });
}

#[test]
fn wide_documents_load_in_linear_time() {
    in_small_thread(|| {
        let started = Instant::now();
        let count = 100_000;
        let block: String =
            (0..count).map(|i| format!("<ACTIVITY NAME=\"a{i}\" TYPE=\"Fit\" depth=\"${{n}}\"/>\n")).collect();
        let program = main(&block);
        assert_eq!(nodes(&program)[0].elements.len(), count);
        println!("block {:?}", started.elapsed());
        // Each element waits for its predecessor and for the first element.
        let element = |i: usize| {
            format!("<ACTIVITY NAME=\"a{i}\" TYPE=\"Fit\" AFTER=\"a{} a0\" label=\"${{a{}.model}}\"/>", i - 1, i - 1)
        };
        let par: String = (1..count).map(element).collect();
        let program = main(&format!("<PAR NAME=\"p\"><ACTIVITY NAME=\"a0\" TYPE=\"Fit\"/>{par}</PAR>"));
        let Kind::Par { waits_for, dependents, .. } = &nodes(&program)[1].kind else { panic!() };
        assert_eq!((waits_for[1], waits_for[2], dependents[0].len()), (1, 2, count - 1));
        println!("par {:?}", started.elapsed());
        // A document of nearly the largest size. It is mostly code whose names are declared many scopes further out.
        let code = "out = n + 1 ".repeat(20);
        let scope = format!(
            "<BLOCK NAME=\"NAME\"><OUT_PARAMETER NAME=\"out\" TYPE=\"int\"/><PRE_CODE>{code}</PRE_CODE></BLOCK>"
        );
        let scopes: String = (0..45_000).map(|i| scope.replace("NAME=\"NAME\"", &format!("NAME=\"s{i}\""))).collect();
        let (open, close): (String, String) =
            ((0..900).map(|i| format!("<BLOCK NAME=\"d{i}\">")).collect(), "</BLOCK>".repeat(900));
        main(&format!("{open}{scopes}{close}"));
        println!("large {} bytes {:?}", scopes.len(), started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    });
}
