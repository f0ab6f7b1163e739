//! Pegasus DAX, versions 2 and 3: jobs with files, and the parents of each child. Sizes in bytes, run times in seconds.
//!
//! Edges are what the document declares, not what files imply. One file name is one file, even with several writers; of
//! several sizes the largest one counts. Negative sizes and run times, which the generator of Pegasus made, count as 0,
//! and so does a missing run time. Files that no job writes are taken to be everywhere.

use std::borrow::Cow;
use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::{ReadError, check_length};
use crate::id::{FileId, TaskId};
use crate::problem::{Work, Workflow, WorkflowBuilder};

/// Reads a workflow.
pub fn read(document: &str) -> Result<Workflow, ReadError> {
    check_length(document)?;
    let mut state = DaxReader { document, ..DaxReader::default() };
    let mut reader = Reader::from_str(document);
    loop {
        state.position = reader.buffer_position() as usize;
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                state.open(&tag)?;
                state.depth += 1;
            }
            Ok(Event::Empty(tag)) => {
                state.open(&tag)?;
                state.close(tag.local_name().as_ref());
            }
            Ok(Event::End(tag)) => {
                state.depth = state.depth.saturating_sub(1);
                state.close(tag.local_name().as_ref());
            }
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(error) => {
                state.position = reader.error_position() as usize;
                return Err(state.error(error.to_string()));
            }
        }
    }
    if !state.root {
        return Err(state.error("there is no element adag"));
    }
    if state.depth > 0 {
        return Err(state.error("the document ends inside an element"));
    }
    state.edges()?;
    Ok(state.builder.build()?)
}

/// An edge by the names of its jobs; jobs may follow later in the document.
struct NamedEdge {
    parent: String,
    child: String,
    position: usize,
}

#[derive(Default)]
struct DaxReader<'a> {
    document: &'a str,
    position: usize,
    root: bool,
    depth: usize,
    builder: WorkflowBuilder,
    jobs: HashMap<String, TaskId>,
    files: HashMap<String, FileId>,
    job: Option<TaskId>,
    child: Option<String>,
    named_edges: Vec<NamedEdge>,
}

impl DaxReader<'_> {
    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), ReadError> {
        match tag.local_name().as_ref() {
            "adag" => self.root = true,
            "job" | "dax" | "dag" => self.job(tag)?,
            "uses" => self.uses(tag)?,
            "child" => self.child = Some(self.required(tag, "ref")?),
            "parent" => self.parent(tag)?,
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, name: &str) {
        match name {
            "job" | "dax" | "dag" => self.job = None,
            "child" => self.child = None,
            _ => {}
        }
    }

    fn job(&mut self, tag: &BytesStart<'_>) -> Result<(), ReadError> {
        let id = self.required(tag, "id")?;
        let runtime = self.number(tag, "runtime")?.unwrap_or(0.0).max(0.0);
        let task = self.builder.task(id.as_str(), Work::cpu(runtime));
        if let Some(program) = self.attribute(tag, "name")? {
            self.builder.kind(task, program);
        }
        if let Some(cores) = self.number(tag, "cores")? {
            self.builder.cores(task, cores as u32);
        }
        self.job = Some(task);
        match self.jobs.insert(id, task) {
            Some(_) => Err(self.error("another job has the same id")),
            None => Ok(()),
        }
    }

    fn uses(&mut self, tag: &BytesStart<'_>) -> Result<(), ReadError> {
        // Transformations and executables use files, too.
        let Some(task) = self.job else {
            return Ok(());
        };
        let name = match self.attribute(tag, "file")? {
            Some(name) => name,
            None => self.required(tag, "name")?.into(),
        };
        let bytes = self.number(tag, "size")?.unwrap_or(0.0);
        let file = match self.files.get(name.as_ref()) {
            Some(file) => *file,
            None => {
                let file = self.builder.file(name.as_ref(), 0.0);
                self.files.insert(name.into_owned(), file);
                file
            }
        };
        self.builder.at_least(file, bytes);
        let link = self.attribute(tag, "link")?.unwrap_or(Cow::Borrowed("input"));
        match link.as_ref() {
            "input" => self.builder.reads(task, file),
            "output" => self.builder.writes(task, file),
            "inout" => {
                self.builder.reads(task, file);
                self.builder.writes(task, file);
            }
            "none" => {}
            other => return Err(self.error(format!("a link is input, output, inout or none, not `{other}`"))),
        }
        Ok(())
    }

    fn parent(&mut self, tag: &BytesStart<'_>) -> Result<(), ReadError> {
        let parent = self.required(tag, "ref")?;
        match &self.child {
            Some(child) => {
                self.named_edges.push(NamedEdge { parent, child: child.clone(), position: self.position });
                Ok(())
            }
            None => Err(self.error("a parent stands outside of a child")),
        }
    }

    fn edges(&mut self) -> Result<(), ReadError> {
        for edge in std::mem::take(&mut self.named_edges) {
            self.position = edge.position;
            let job = |id: &str| match self.jobs.get(id) {
                Some(task) => Ok(*task),
                None => Err(self.error(format!("there is no job {id}"))),
            };
            let (parent, child) = (job(&edge.parent)?, job(&edge.child)?);
            self.builder.edge(parent, child);
        }
        Ok(())
    }

    fn attribute<'t>(&self, tag: &'t BytesStart<'_>, name: &str) -> Result<Option<Cow<'t, str>>, ReadError> {
        let found = tag.try_get_attribute(name).map_err(|error| self.error(error.to_string()))?;
        let value = found.map(|found| found.normalized_value(XmlVersion::Implicit1_0)).transpose();
        value.map_err(|error| self.error(error.to_string()))
    }

    fn required(&self, tag: &BytesStart<'_>, name: &str) -> Result<String, ReadError> {
        match self.attribute(tag, name)? {
            Some(value) => Ok(value.into_owned()),
            None => Err(self.error(format!("the attribute {name} is missing"))),
        }
    }

    fn number(&self, tag: &BytesStart<'_>, name: &str) -> Result<Option<f64>, ReadError> {
        let Some(text) = self.attribute(tag, name)? else {
            return Ok(None);
        };
        match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(self.error(format!("the attribute {name} must be a number, not `{text}`"))),
        }
    }

    fn error(&self, reason: impl Into<String>) -> ReadError {
        let mut before = self.document.as_bytes()[..self.position.min(self.document.len())].to_vec();
        // A tag follows the white space before it, which belongs to its event.
        let rest = &self.document.as_bytes()[before.len()..];
        before.extend(rest.iter().take_while(|byte| byte.is_ascii_whitespace()));
        ReadError::line(1 + before.iter().filter(|byte| **byte == b'\n').count(), reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"<?xml version="1.0"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX">
  <job id="A" name="first" runtime="10.5">
    <uses file="in" link="input" size="100"/>
    <uses file="a&amp;b" link="output" size="50"/>
  </job>
  <job id="B" runtime="2"><uses name="a&amp;b" link="input" size="60"/></job>
  <child ref="B"><parent ref="A"/></child>
</adag>"#;

    #[test]
    fn a_small_workflow_is_read() {
        let workflow = read(SMALL).unwrap();
        assert_eq!((workflow.task_count(), workflow.file_count(), workflow.edge_count()), (2, 2, 1));
        assert_eq!(workflow.cpu_seconds(TaskId(0)), 10.5);
        assert_eq!(workflow.file_name(FileId(1)), "a&b");
        assert_eq!(workflow.children(TaskId(0))[0].bytes, 60.0);
    }

    #[test]
    fn faults_have_a_line_and_a_reason() {
        let cases = [
            (SMALL.replace("10.5", "long"), "line 3: the attribute runtime must be a number, not `long`"),
            (SMALL.replace("\"B\" runtime", "\"A\" runtime"), "line 7: another job has the same id"),
            (SMALL.replace("parent ref=\"A\"", "parent ref=\"C\""), "line 8: there is no job C"),
            (
                SMALL.replace("link=\"output\"", "link=\"up\""),
                "line 5: a link is input, output, inout or none, not `up`",
            ),
            (SMALL.replace("</adag>", ""), "line 9: the document ends inside an element"),
            ("<a/>".into(), "line 1: there is no element adag"),
            (String::new(), "line 1: there is no element adag"),
        ];
        for (document, message) in cases {
            assert_eq!(read(&document).unwrap_err().to_string(), message);
        }
        assert!(read("<adag><job></adag>").is_err());
        assert!(read("<adag><job id='&x;'/></adag>").is_err());
    }
}
