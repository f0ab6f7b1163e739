//! Which part of a definition a path means, and which file has it.

use xavantes_engine::Root;
use xavantes_model::definition::{DefinitionNode, Kind, ProcessType, Program};
use xavantes_proto::v1;

/// The process type and the node at a path that begins below the root.
pub(crate) fn node_at<'a>(
    program: &'a Program,
    root: Root,
    path: &str,
) -> Option<(&'a ProcessType, &'a DefinitionNode)> {
    let mut process = program.processes.get(root.process)?;
    let mut node = process.nodes.get(root.node.index())?;
    for name in path.split('/') {
        if let Kind::Process { process: called } = node.kind {
            process = program.processes.get(called)?;
            node = process.nodes.first()?;
        }
        let inner = node.elements.iter().chain(&node.catch).chain(&node.finally);
        let inner = inner.filter_map(|id| process.nodes.get(id.index()));
        let iteration = name.starts_with('[');
        node = inner.into_iter().find(|inner| match inner.tag == "ITERATE" {
            true => iteration,
            false => *inner.name == *name,
        })?;
    }
    Some((process, node))
}

/// Adds the names of the files to a failure and its causes. `id` is the path of the root.
pub(crate) fn name_files(failure: &mut v1::Failure, program: &Program, root: Root, id: &str) {
    let mut next = Some(failure);
    while let Some(failure) = next {
        if failure.line.is_some() {
            failure.file = file_of(failure, program, root, id);
        }
        next = failure.cause.as_deref_mut();
    }
}

fn file_of(failure: &v1::Failure, program: &Program, root: Root, id: &str) -> Option<String> {
    let rest = failure.path.strip_prefix(id)?;
    let source = match rest.strip_prefix('/') {
        Some(path) => match node_at(program, root, path)? {
            // The worker counts the lines of the document that has the code.
            (_, DefinitionNode { kind: Kind::Activity { activity }, .. }) if failure.worker.is_some() => {
                program.activities.get(*activity)?.source
            }
            // The code of a called process type is in the document of that type, its bindings in that of the caller: the
            // nodes of the type have lines, and so tell which.
            (_, DefinitionNode { kind: Kind::Process { process }, line, .. }) if failure.line != Some(*line) => {
                program.processes.get(*process)?.source
            }
            (process, _) => process.source,
        },
        None => program.processes.get(root.process)?.source,
    };
    let name = program.sources.get(source)?;
    Some(name.rsplit('/').next().unwrap_or(name).to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use xavantes_model::definition::DefinitionNodeId;
    use xavantes_model::diagnostic::Source;
    use xavantes_model::load::load;

    use super::*;

    const ROOT: Root = Root { process: 0, node: DefinitionNodeId::BODY };

    fn program(documents: &[(&'static str, &'static str)]) -> Program {
        let sources: Vec<Source> = documents.iter().map(|(name, text)| Source::new(*name, *text)).collect();
        load(&sources).unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    #[test]
    fn a_path_leads_to_the_type_of_its_activity() {
        let program = program(&[(
            "p.xml",
            r#"<XAVANTES VERSION="1">
          <PROCESS_TYPE NAME="P"><BODY>
            <PARFOR NAME="all" TO="3"><ITERATE><PROCESS TYPE="Q" NAME="inner"/></ITERATE></PARFOR>
            <SWITCH NAME="which"><CASE CONDITION="true"><ACTIVITY TYPE="B" NAME="b"/></CASE></SWITCH>
            <CATCH><ACTIVITY TYPE="A" NAME="help"/></CATCH>
          </BODY></PROCESS_TYPE>
          <PROCESS_TYPE NAME="Q"><BODY><ACTIVITY TYPE="A" NAME="a"/></BODY></PROCESS_TYPE>
          <ACTIVITY_TYPE NAME="A" CACHE="true"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
          <ACTIVITY_TYPE NAME="B"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
        </XAVANTES>"#,
        )]);
        let found = |path: &str| match node_at(&program, ROOT, path)?.1.kind {
            Kind::Activity { activity } => Some(&*program.activities[activity].name),
            _ => None,
        };
        assert_eq!(found("all/[2]/inner/a"), Some("A"));
        assert_eq!(found("which/case1/b"), Some("B"));
        assert_eq!(found("catch/help"), Some("A"));
        for other in ["", "all", "all/[2]", "all/[2]/inner", "all/a", "nobody", "which/case1/b/more", "all//inner"] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn a_failure_names_the_file_of_its_line() {
        let main = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><BODY>
          <PROCESS TYPE="Q" NAME="inner"/><ACTIVITY TYPE="A" NAME="a"/>
        </BODY></PROCESS_TYPE></XAVANTES>"#;
        let more = r#"<XAVANTES VERSION="1">

          <PROCESS_TYPE NAME="Q"><BODY><ACTIVITY TYPE="A" NAME="a"/></BODY></PROCESS_TYPE>
          <ACTIVITY_TYPE NAME="A"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
        </XAVANTES>"#;
        let program = program(&[("some/where/main.xml", main), ("types.xml", more)]);
        let file = |path: &str, line: Option<u32>, worker: Option<&str>| {
            let cause = Some(Box::new(v1::Failure { path: "P-1".into(), line, ..v1::Failure::default() }));
            let worker = worker.map(str::to_owned);
            let mut failure = v1::Failure { path: path.into(), line, worker, cause, ..v1::Failure::default() };
            name_files(&mut failure, &program, ROOT, "P-1");
            let cause = failure.cause.expect("the cause stays").file;
            assert_eq!(cause.as_deref(), line.map(|_| "main.xml"));
            failure.file
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(file("P-1", Some(1), None), named("main.xml"));
        assert_eq!(file("P-1/a", Some(4), Some("w")), named("types.xml"));
        assert_eq!(file("P-1/a", Some(2), None), named("main.xml"));
        assert_eq!(file("P-1/inner/a", Some(3), None), named("types.xml"));
        assert_eq!(file("P-1/inner", Some(3), None), named("types.xml"));
        assert_eq!(file("P-1/inner", Some(2), None), named("main.xml"));
        assert_eq!((file("P-1/a", None, None), file("Other-1/a", Some(2), None)), (None, None));
    }
}
