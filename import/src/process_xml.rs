//! A layout as XML: one process type, whose controllers and activities stand as the layout says.

use std::fmt::Write as _;

use crate::process_layout::{Child, ControllerKind, Layout, TaskOutput};
use crate::xml_text::{attribute, content, literal, number};

/// A task as an activity.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    pub type_name: String,
    /// Name in the original document, if the language does not allow it.
    pub original: Option<String>,
    /// Parameters and their values, as attributes are written.
    pub parameters: Vec<(String, String)>,
    /// Estimated seconds.
    pub seconds: Option<f64>,
    /// Estimated sizes of parameters.
    pub sizes: Vec<(String, f64)>,
    /// Files besides parameters: name, whether the activity writes it, bytes.
    pub files: Vec<(String, bool, Option<f64>)>,
}

/// What the process consists of, besides its layout.
pub(crate) struct ProcessText<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// Parameters of the process type, as XML.
    pub parameters: String,
    pub task_names: &'a [String],
    pub activities: &'a [Activity],
    /// Results that each task reads.
    pub reads: &'a [Vec<TaskOutput>],
    /// Name of the parameter that takes the results that a task reads.
    pub reading: &'a str,
    /// Name and type of the `OUT` parameter that a product is.
    pub port: &'a dyn Fn(TaskOutput) -> (String, &'static str),
    /// `OUT` parameters of the process and where their values come from.
    pub results: &'a [(String, TaskOutput)],
    /// Activity types, as XML.
    pub types: String,
}

/// Writes the document.
pub(crate) fn write(process: &ProcessText, layout: &Layout) -> String {
    let mut writer = ProcessWriter { process, layout, out: String::new() };
    writer.document();
    writer.out
}

struct ProcessWriter<'a> {
    process: &'a ProcessText<'a>,
    layout: &'a Layout,
    out: String,
}

impl ProcessWriter<'_> {
    fn document(&mut self) {
        let process = self.process;
        self.out.push_str("<XAVANTES VERSION=\"1\">\n");
        let _ = writeln!(self.out, "  <PROCESS_TYPE{}>", attribute("NAME", process.name));
        self.description(2, process.description);
        self.out.push_str(&process.parameters);
        self.out.push_str("    <BODY>\n");
        self.element(3, Child::Controller(0), "");
        if !process.results.is_empty() {
            let assign =
                |(name, product): &(String, TaskOutput)| format!("{name} = {}", self.expression(*product, None));
            let code: Vec<String> = process.results.iter().map(assign).collect();
            self.code(3, &code);
        }
        self.out.push_str("    </BODY>\n  </PROCESS_TYPE>\n");
        self.out.push_str(&process.types);
        self.out.push_str("</XAVANTES>\n");
    }

    fn indent(&mut self, level: usize) {
        // Deep documents are for programs: their indentation would take more room than their content.
        (0..level.min(20)).for_each(|_| self.out.push_str("  "));
    }

    fn description(&mut self, level: usize, text: &str) {
        self.indent(level);
        self.out.push_str("<DESCRIPTION>");
        content(&mut self.out, text);
        self.out.push_str("</DESCRIPTION>\n");
    }

    fn code(&mut self, level: usize, lines: &[String]) {
        self.indent(level);
        self.out.push_str("<POST_CODE>\n");
        for line in lines {
            self.indent(level + 1);
            self.out.push_str(line);
            self.out.push('\n');
        }
        self.indent(level);
        self.out.push_str("</POST_CODE>\n");
    }

    fn expression(&self, product: TaskOutput, scope: Option<usize>) -> String {
        self.layout.expression(product, scope, self.process.task_names, &(self.process.port)(product).0)
    }

    fn list(&self, products: &[TaskOutput], scope: Option<usize>) -> String {
        let values: Vec<String> = products.iter().map(|product| self.expression(*product, scope)).collect();
        format!("{{{}}}", values.join(", "))
    }

    /// Writes an element that waits for the siblings with these names.
    fn element(&mut self, level: usize, child: Child, after: &str) {
        let after = if after.is_empty() { String::new() } else { attribute("AFTER", after) };
        match child {
            Child::Task(task) => self.activity(level, task, &after),
            Child::Controller(controller) => self.controller(level, controller, &after),
        }
    }

    fn name(&self, child: Child) -> &str {
        match child {
            Child::Task(task) => &self.process.task_names[task],
            Child::Controller(controller) => &self.layout.controllers[controller].name,
        }
    }

    // `structure` bounds the depth of controllers.
    fn controller(&mut self, level: usize, number: usize, after: &str) {
        let layout = self.layout;
        let controller = &layout.controllers[number];
        let tag = match controller.kind {
            ControllerKind::Block => "BLOCK",
            ControllerKind::Par => "PAR",
        };
        self.indent(level);
        let _ = write!(self.out, "<{tag}{}{after}", attribute("NAME", &controller.name));
        // Each block has a name of its own for its list, so that an inner one does not hide that of an outer one.
        let gathered = format!("list_of_{}", controller.name);
        if !controller.gathers.is_empty() {
            let list = self.list(&controller.gathers, layout.parent(number));
            self.out.push_str(&attribute(&gathered, &format!("${{ {list} }}")));
        }
        self.out.push_str(">\n");
        if !controller.gathers.is_empty() {
            self.indent(level + 1);
            let _ = writeln!(self.out, "<IN_PARAMETER TYPE=\"list\" NAME=\"{gathered}\"/>");
        }
        for product in &controller.exports {
            self.indent(level + 1);
            let (name, ty) = (&layout.carriers[product], (self.process.port)(*product).1);
            let _ = writeln!(self.out, "<OUT_PARAMETER TYPE=\"{ty}\" NAME=\"{name}\"/>");
        }
        for (child, after) in &controller.children {
            let after =
                after.iter().map(|sibling| self.name(controller.children[*sibling].0)).collect::<Vec<_>>().join(" ");
            self.element(level + 1, *child, &after);
        }
        if !controller.exports.is_empty() {
            let assign = |product: &TaskOutput| {
                format!("{} = {}", layout.carriers[product], self.expression(*product, Some(number)))
            };
            let code: Vec<String> = controller.exports.iter().map(assign).collect();
            self.code(level + 1, &code);
        }
        self.indent(level);
        let _ = writeln!(self.out, "</{tag}>");
    }

    fn activity(&mut self, level: usize, task: usize, after: &str) {
        let (layout, process) = (self.layout, self.process);
        let activity = &process.activities[task];
        self.indent(level);
        let names = attribute("TYPE", &activity.type_name) + &attribute("NAME", &process.task_names[task]);
        let _ = write!(self.out, "<ACTIVITY{names}{after}");
        for (name, value) in &activity.parameters {
            self.out.push_str(&attribute(name, value));
        }
        let gathering = layout.gathering(task);
        if !gathering.is_empty() {
            let lists: Vec<String> =
                gathering.iter().map(|block| format!("list_of_{}", layout.controllers[*block].name)).collect();
            let joined = format!(
                "${{ (function() local all = {{}} for _, part in {{{}}} do for _, one in part do \
                 table.insert(all, one) end end return all end)() }}",
                lists.join(", ")
            );
            self.out.push_str(&attribute(process.reading, &joined));
        } else if !process.reads[task].is_empty() {
            let list = self.list(&process.reads[task], Some(layout.home(task)));
            self.out.push_str(&attribute(process.reading, &format!("${{ {list} }}")));
        }
        let plain = activity.seconds.is_none() && activity.sizes.is_empty() && activity.files.is_empty();
        if plain && activity.original.is_none() {
            self.out.push_str("/>\n");
            return;
        }
        self.out.push_str(">\n");
        if let Some(original) = &activity.original {
            self.description(level + 1, original);
        }
        if !plain {
            self.estimate(level + 1, activity);
        }
        self.indent(level);
        self.out.push_str("</ACTIVITY>\n");
    }

    fn estimate(&mut self, level: usize, activity: &Activity) {
        self.indent(level);
        let seconds = activity.seconds.map(|seconds| attribute("SECONDS", &number(seconds))).unwrap_or_default();
        let _ = write!(self.out, "<ESTIMATE{seconds}");
        if activity.sizes.is_empty() && activity.files.is_empty() {
            self.out.push_str("/>\n");
            return;
        }
        self.out.push_str(">\n");
        for (parameter, bytes) in &activity.sizes {
            self.indent(level + 1);
            let _ = writeln!(self.out, "<SIZE PARAMETER=\"{parameter}\" BYTES=\"{}\"/>", number(bytes.ceil()));
        }
        for (name, writes, bytes) in &activity.files {
            self.indent(level + 1);
            let access = if *writes { "write" } else { "read" };
            let bytes = bytes.map(|bytes| attribute("BYTES", &number(bytes.ceil()))).unwrap_or_default();
            let _ = writeln!(self.out, "<FILE{} USE=\"{access}\"{bytes}/>", attribute("NAME", &literal(name)));
        }
        self.indent(level);
        self.out.push_str("</ESTIMATE>\n");
    }
}
