//! Random definitions: trees of elements with random attributes, and their documents.

use proptest::prelude::*;

/// An element of a random definition.
#[derive(Debug, Clone)]
pub enum Tree {
    Activity,
    Call,
    DefinitionNode { tag: &'static str, elements: Vec<Tree>, options: Options },
}

/// Attributes and handlers of a random element.
#[derive(Debug, Clone)]
pub struct Options {
    retries: u8,
    delay: bool,
    timeout: bool,
    on_failure: u8,
    join: u8,
    max: u8,
    exit: u8,
    turns: u8,
    catch: bool,
    finally: bool,
    code: bool,
    links: u64,
    delegate: bool,
}

/// Random attributes.
fn options() -> impl Strategy<Value = Options> {
    let numbers = (0..3u8, 0..8u8, 0..5u8, 0..4u8, 0..6u8, 0..5u8, any::<u64>());
    let flags = (any::<bool>(), 0..5u8, 0..4u8, 0..4u8, any::<bool>(), 0..6u8);
    (numbers, flags).prop_map(|((retries, on_failure, join, max, exit, turns, links), flags)| {
        let (delay, timeout, catch, finally, code, delegate) = flags;
        Options {
            retries,
            delay,
            timeout: timeout == 0,
            on_failure,
            join,
            max,
            exit,
            turns,
            catch: catch == 0,
            finally: finally == 0,
            code,
            links,
            delegate: delegate == 0,
        }
    })
}

/// Random trees of elements.
pub fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![6 => Just(Tree::Activity), 1 => Just(Tree::Call)];
    leaf.prop_recursive(4, 30, 4, |inner| {
        let tags =
            prop::sample::select(vec!["BLOCK", "SWITCH", "FOR", "WHILE", "PAR", "PARSWITCH", "PARFOR", "PARWHILE"]);
        (tags, proptest::collection::vec(inner, 0..4), options())
            .prop_map(|(tag, elements, options)| Tree::DefinitionNode { tag, elements, options })
    })
}

/// The document of a process with these elements.
pub fn document(trees: &[Tree]) -> String {
    let mut body = String::new();
    trees.iter().enumerate().for_each(|(index, tree)| element(tree, index, "", &mut body));
    format!(
        r#"<XAVANTES VERSION="1">
<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="RemoteSet" NAME="seen"/><BODY>
<PRE_CODE>seen = RemoteSet.new()</PRE_CODE>{body}</BODY></PROCESS_TYPE>
<PROCESS_TYPE NAME="Sub"><IN_PARAMETER TYPE="RemoteSet" NAME="set" OPTIONAL="true"/><BODY>
<ACTIVITY TYPE="A" NAME="one" set="${{set}}"/><ACTIVITY TYPE="A" NAME="two" RETRIES="1" set="${{set}}"/></BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="A"><IN_PARAMETER TYPE="RemoteSet" NAME="set" OPTIONAL="true"/>
<OUT_PARAMETER TYPE="int" NAME="value"/><CODE LANGUAGE="lua">value = 1</CODE></ACTIVITY_TYPE>
</XAVANTES>"#
    )
}

/// Writes one element; `extra` are more attributes of it.
fn element(tree: &Tree, index: usize, extra: &str, out: &mut String) {
    let name = format!("e{index}");
    match tree {
        Tree::Activity => out.push_str(&format!(r#"<ACTIVITY TYPE="A" NAME="{name}" set="${{seen}}"{extra}/>"#)),
        Tree::Call => out.push_str(&format!(r#"<PROCESS TYPE="Sub" NAME="{name}" set="${{seen}}"{extra}/>"#)),
        Tree::DefinitionNode { tag, elements, options } => {
            out.push_str(&format!(r#"<{tag} NAME="{name}"{extra} RETRIES="{}""#, options.retries));
            if options.delay {
                out.push_str(r#" RETRY_DELAY="1s""#);
            }
            if options.timeout {
                out.push_str(r#" TIMEOUT="20s""#);
            }
            out.push_str(match options.on_failure {
                0 => r#" ON_FAILURE="continue""#,
                1 => r#" ON_FAILURE="hold""#,
                _ => "",
            });
            out.push_str(if options.delegate { r#" DELEGATE="always""# } else { r#" DELEGATE="never""# });
            let parallel = tag.starts_with("PAR");
            if parallel && options.join < 3 {
                out.push_str(&format!(r#" JOIN="{}""#, options.join + 1));
            }
            if parallel && options.max > 0 {
                out.push_str(&format!(r#" MAX_PARALLEL="{}""#, options.max));
            }
            if parallel && options.exit == 0 {
                out.push_str(r#" EXIT_CONDITION="completed + failed > 1 and running &lt; 3""#);
            }
            match *tag {
                "FOR" | "PARFOR" if options.code => {
                    out.push_str(&format!(r#" EACH="${{table.create({}, 7)}}""#, options.turns))
                }
                "FOR" | "PARFOR" => {
                    out.push_str(&format!(r#" FROM="5" TO="{}" STEP="-1""#, 6 - i64::from(options.turns)))
                }
                "WHILE" | "PARWHILE" => out.push_str(&format!(r#" CONDITION="counter &lt;= {}""#, options.turns)),
                _ => {}
            }
            let collects = matches!(*tag, "FOR" | "PARFOR" | "WHILE" | "PARWHILE") && options.exit % 2 == 0;
            if collects {
                out.push_str(r#" COLLECT="counter""#);
            }
            out.push('>');
            if options.code {
                out.push_str(r#"<INOUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/><PRE_CODE>n = n + 1</PRE_CODE>"#);
                out.push_str("<POST_CODE>n = n + 1</POST_CODE>");
            }
            children(tag, elements, options, out);
            if options.catch {
                out.push_str(r#"<CATCH><ACTIVITY TYPE="A" NAME="c"/></CATCH>"#);
            }
            if options.finally {
                out.push_str(r#"<FINALLY><ACTIVITY TYPE="A" NAME="f"/></FINALLY>"#);
            }
            out.push_str(&format!("</{tag}>"));
        }
    }
}

/// Writes the elements in an element, as its tag demands.
fn children(tag: &str, elements: &[Tree], options: &Options, out: &mut String) {
    let each = |out: &mut String| elements.iter().enumerate().for_each(|(index, tree)| element(tree, index, "", out));
    match tag {
        "BLOCK" => each(out),
        "PAR" => {
            for (index, tree) in elements.iter().enumerate() {
                let after: Vec<String> = (0..index)
                    .filter(|other| options.links >> (index * 8 + other) & 1 == 1)
                    .map(|n| format!("e{n}"))
                    .collect();
                let after = if after.is_empty() { String::new() } else { format!(r#" AFTER="{}""#, after.join(" ")) };
                element(tree, index, &after, out);
            }
        }
        "SWITCH" | "PARSWITCH" => {
            for (index, tree) in elements.iter().enumerate() {
                let holds = options.links >> index & 1 == 1;
                out.push_str(&format!(r#"<CASE CONDITION="{holds}">"#));
                element(tree, index, "", out);
                out.push_str("</CASE>");
            }
            out.push_str(r#"<DEFAULT><ACTIVITY TYPE="A" NAME="d"/></DEFAULT>"#);
        }
        _ => {
            out.push_str(if options.links & 1 == 1 { r#"<ITERATE ON_FAILURE="continue">"# } else { "<ITERATE>" });
            each(out);
            out.push_str("</ITERATE>");
        }
    }
}
