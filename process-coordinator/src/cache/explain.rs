//! Why the result of an activity was used again, or not. What was decided is kept where it was decided: here, or at a
//! coordinator that was handed that part of the process.

use xavantes_engine::Root;
use xavantes_model::definition::{self, ActivityType, NodeId, Program};
use xavantes_model::digest::Digest;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::v1::reuse_reason::Kind;
use xavantes_proto::{call_with_timeout, connect, v1};

use tonic::Status;

use crate::cache::decide::{Earlier, Verdict, Why};
use crate::coordinator::{Coordinator, unavailable};
use crate::process::journal::{self, Head};
use crate::rpc::logs::{MOST_HOPS, vicinity};
use crate::subtrees::hosted as foster;

/// Tells what is known of an activity.
pub(crate) async fn explain(
    coordinator: &Coordinator,
    request: v1::ExplainRequest,
) -> Result<v1::ExplainResponse, Status> {
    let v1::ExplainRequest { path, hops } = request;
    let (defined, since) = definition(coordinator, &path).await?;
    let decided = coordinator.shelf.verdict(&path).await.map_err(|error| unavailable(&error))?;
    // An id may come again, long after its process was forgotten.
    if let Some((at_ms, verdict)) = decided.filter(|(at_ms, _)| *at_ms >= since) {
        return Ok(response(at_ms, verdict));
    }
    if let Definition::Activity { type_name, cache: false } = &defined {
        return Ok(v1::ExplainResponse {
            path,
            r#type: type_name.clone(),
            reason: Some(Kind::NotCached(v1::Nothing {}).into()),
            ..v1::ExplainResponse::default()
        });
    }
    if hops < MOST_HOPS {
        for address in vicinity(coordinator, &path).await.coordinators {
            let request = v1::ExplainRequest { path: path.clone(), hops: hops + 1 };
            if let Ok(channel) = connect(&address).await
                && let Ok(answer) = call_with_timeout(ProcessCoordinatorClient::new(channel).explain(request)).await
                && !matches!(
                    answer.reason.as_ref().and_then(|reason| reason.kind.as_ref()),
                    None | Some(Kind::Unknown(_))
                )
            {
                return Ok(answer);
            }
        }
    }
    match defined {
        Definition::Activity { type_name, .. } => Ok(v1::ExplainResponse {
            path,
            r#type: type_name,
            reason: Some(Kind::Unknown(v1::Nothing {}).into()),
            ..v1::ExplainResponse::default()
        }),
        Definition::Other => Err(Status::invalid_argument(format!("{path} is no activity"))),
        Definition::Unknown => Err(Status::not_found(format!("there is no process with {path:?} here"))),
    }
}

/// What a path means by the definition of its process.
enum Definition {
    Activity { type_name: String, cache: bool },
    Other,
    Unknown,
}

/// With the time when its process began.
async fn definition(coordinator: &Coordinator, path: &str) -> Result<(Definition, u64), Status> {
    let mut begin = path;
    loop {
        // A subtree has a name of its own, and begins paths with the path there.
        let id = coordinator.processes.at(begin).map_or_else(|| begin.to_owned(), |(id, _)| id.to_string());
        let entry = coordinator.repository.find(&id).await.map_err(|error| unavailable(&error))?;
        let head = entry.and_then(|entry| journal::read::<Head>("head", &entry.head).ok());
        if let Some(head) = head {
            let loaded = coordinator.programs.fetch(&head.program).await.map_err(|error| unavailable(&error))?;
            let Some((program, _)) = loaded else { return Ok((Definition::Unknown, 0)) };
            let root = Root { process: head.root.0 as usize, node: NodeId(head.root.1) };
            let rest = path.strip_prefix(foster::path(&id, head.parent.is_some())).unwrap_or_default();
            let meant = match site(&program, root, rest.trim_start_matches('/')) {
                Some(activity) => Definition::Activity { type_name: activity.name.to_string(), cache: activity.cache },
                None => Definition::Other,
            };
            return Ok((meant, head.submitted_ms));
        }
        match begin.rsplit_once('/') {
            Some((shorter, _)) => begin = shorter,
            None => return Ok((Definition::Unknown, 0)),
        }
    }
}

/// The type of the activity at a path, from the root on.
fn site<'a>(program: &'a Program, root: Root, path: &str) -> Option<&'a ActivityType> {
    let mut process = program.processes.get(root.process)?;
    let mut node = process.nodes.get(root.node.index())?;
    for name in path.split('/') {
        if let definition::Kind::Process { process: called } = node.kind {
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
    match node.kind {
        definition::Kind::Activity { activity } => program.activities.get(activity),
        _ => None,
    }
}

fn response(at_ms: u64, verdict: Verdict) -> v1::ExplainResponse {
    let code = verdict.code;
    let reason = match verdict.outcome {
        Ok(earlier) => Kind::Reused(activity(earlier)),
        Err(why) => not_reused(why, &code),
    };
    v1::ExplainResponse {
        path: verdict.path,
        r#type: verdict.type_name.to_string(),
        decided_ms: at_ms,
        reason: Some(reason.into()),
    }
}

fn not_reused(why: Why, code: &Digest) -> Kind {
    match why {
        Why::NotWanted => Kind::Disabled(v1::Nothing {}),
        Why::First => Kind::First(v1::Nothing {}),
        Why::Changed { earlier, code: before, parameters } => {
            let parameters = parameters.into_iter().map(|change| v1::ParameterChange {
                name: change.name.to_string(),
                before: change.before,
                after: change.after,
            });
            Kind::Changed(v1::ReuseChange {
                nearest: Some(activity(earlier)),
                code: before.map(|_| code.short()).unwrap_or_default(),
                code_before: before.map(|before| before.short()).unwrap_or_default(),
                parameters: parameters.collect(),
            })
        }
        Why::Failed(earlier) => Kind::Failed(activity(earlier)),
        Why::TooLarge(earlier, size_bytes) => {
            Kind::TooLarge(v1::ReuseTooLarge { earlier: Some(activity(earlier)), size_bytes })
        }
        Why::Removed(earlier) => Kind::Evicted(activity(earlier)),
        Why::Gone(earlier, file) => Kind::FileGone(v1::ReuseFileGone { earlier: Some(activity(earlier)), file }),
        Why::Outside(parameter, uri) => {
            Kind::UnknownContent(v1::ReuseUnknownContent { parameter: parameter.to_string(), uri })
        }
        Why::Shared(parameter) => Kind::SharedObject(parameter.to_string()),
        Why::Unavailable(problem) => Kind::Unavailable(problem),
    }
}

fn activity(Earlier { path, at_ms }: Earlier) -> v1::EarlierActivity {
    v1::EarlierActivity { path, ended_ms: at_ms }
}

/// An activity that completed without being run, as it is shown.
pub(crate) async fn reused(coordinator: &Coordinator, path: String) -> Option<v1::Element> {
    let (_, verdict) = coordinator.shelf.verdict(&path).await.ok()??;
    verdict.outcome.is_ok().then(|| v1::Element {
        path,
        tag: "ACTIVITY".into(),
        r#type: verdict.type_name.to_string(),
        condition: v1::Condition::Reused.into(),
        ..v1::Element::default()
    })
}

#[cfg(test)]
mod tests {
    use xavantes_model::diagnostic::Source;
    use xavantes_model::load::load;

    use super::*;

    #[test]
    fn a_path_leads_to_the_type_of_its_activity() {
        let text = r#"<XAVANTES VERSION="1">
          <PROCESS_TYPE NAME="P"><BODY>
            <PARFOR NAME="all" TO="3"><ITERATE><PROCESS TYPE="Q" NAME="inner"/></ITERATE></PARFOR>
            <SWITCH NAME="which"><CASE CONDITION="true"><ACTIVITY TYPE="B" NAME="b"/></CASE></SWITCH>
            <CATCH><ACTIVITY TYPE="A" NAME="help"/></CATCH>
          </BODY></PROCESS_TYPE>
          <PROCESS_TYPE NAME="Q"><BODY><ACTIVITY TYPE="A" NAME="a"/></BODY></PROCESS_TYPE>
          <ACTIVITY_TYPE NAME="A" CACHE="true"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
          <ACTIVITY_TYPE NAME="B"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
        </XAVANTES>"#;
        let program = load(&[Source::new("p.xml", text)]).unwrap_or_else(|problems| panic!("{problems:?}"));
        let root = Root { process: 0, node: NodeId::BODY };
        let found = |path: &str| site(&program, root, path).map(|activity| (&*activity.name, activity.cache));
        assert_eq!(found("all/[2]/inner/a"), Some(("A", true)));
        assert_eq!(found("which/case1/b"), Some(("B", false)));
        assert_eq!(found("catch/help"), Some(("A", true)));
        for other in ["", "all", "all/[2]", "all/[2]/inner", "all/a", "nobody", "which/case1/b/more", "all//inner"] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
