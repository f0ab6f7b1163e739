//! Processes that were imported from other systems, and pictures of definitions.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_import::{ImportForm, Imported};
use xavantes_picture::Picture;

/// A workflow that was imported.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Import"))]
pub(crate) struct ImportReport {
    /// File of the process
    pub file: String,
    /// Name of the process type
    pub process: String,
    /// Tasks; each is one activity
    pub tasks: usize,
    /// Edges of the workflow
    pub edges: usize,
    /// Files of the workflow
    pub files: usize,
    /// Tasks whose names the language does not allow. The `DESCRIPTION` of the activity has the original name
    pub renamed: usize,
    /// One `PAR` with `AFTER`, or nested controllers
    #[cfg_attr(test, schemars(extend("enum" = ["graph", "structured"])))]
    pub form: &'static str,
    /// Elements that stand in a `PAR` with `AFTER`; 0 for a series-parallel workflow in structured form
    pub linked: usize,
    /// Parameters of the process that take files
    pub inputs: Vec<FileParameter>,
    /// Parameters of the process that give files
    pub outputs: Vec<FileParameter>,
}

/// A parameter and the file of the workflow that it stands for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FileParameter {
    /// Name of the parameter
    pub parameter: String,
    /// File, as the workflow names it
    pub file: String,
}

/// A picture of a definition.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Drawing"))]
pub(crate) struct DrawReport {
    /// Name of the process type
    pub process: String,
    /// File of the picture; absent if the picture is in `picture`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The picture, if it was not written to a file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// Boxes in the picture
    pub boxes: usize,
    /// Activities of the process type
    pub activities: usize,
    /// Whether some boxes stand for several elements
    pub collapsed: bool,
}

impl ImportReport {
    pub(crate) fn new(imported: Imported, file: String) -> Self {
        let parameters = |files: Vec<(String, String)>| {
            files.into_iter().map(|(parameter, file)| FileParameter { parameter, file }).collect()
        };
        Self {
            file,
            process: imported.process,
            tasks: imported.tasks,
            edges: imported.edges,
            files: imported.files,
            renamed: imported.renamed,
            form: match imported.form {
                ImportForm::Graph => "graph",
                ImportForm::Structured => "structured",
            },
            linked: imported.linked,
            inputs: parameters(imported.inputs),
            outputs: parameters(imported.outputs),
        }
    }
}

impl DrawReport {
    /// `written` says that the picture is in the file `to`.
    pub(crate) fn new(picture: Picture, process: &str, written: bool, to: String) -> Self {
        let (boxes, activities, collapsed) = (picture.boxes, picture.activities, picture.collapsed);
        let (file, picture) = if written { (Some(to), None) } else { (None, Some(picture.text)) };
        Self { process: process.to_owned(), file, picture, boxes, activities, collapsed }
    }
}
