//! Workflows of other systems as processes of Xavantes: from the text of a document to the text of a definition. Nothing
//! here does I/O.
//!
//! | module | content |
//! |---|---|
//! | `importers` | [`import`], the options of an import and what it reports |
//! | `order` | transitive reduction and series-parallel structure of a task graph |
//! | `process_layout` | controllers of the process, and the ways of results between them |
//! | `process_xml` | a layout as XML |
//! | `stand_in` | activity types that stand in for programs that are not here |
//! | `sweeper` | Sweeper's YAML and the activities that run its commands |
//! | `name_maker` | names that the language allows, one for each original name |
//! | `xml_text` | text in XML |

mod importers;
mod name_maker;
mod order;
mod process_layout;
mod process_xml;
mod stand_in;
mod sweeper;
mod xml_text;

pub use importers::{ImportError, ImportForm, Imported, Options, SourceFormat, import};
pub use stand_in::StandIn;
