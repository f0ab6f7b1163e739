//! The content-addressed object store on disk. Each object is a file that is named by its digest and never changes. A new
//! object is written under a temporary name, and renamed when all bytes have arrived and have the digest.
//!
//! | in the folder | contents |
//! |---|---|
//! | `objects/ab/cdef…` | the objects |
//! | `coming/` | incomplete objects; emptied when the store is opened |
//! | `pins/` | one file for each owner: its name, then one digest per line |
//!
//! | module | contents |
//! |---|---|
//! | `store_state` | [`store_state::FileStore`], the handle, and the state behind it |
//! | `open` | reads the folder when the store is opened |
//! | `stored_objects` | use of objects, and the check of those that may be damaged |
//! | `receive` | new objects: from other nodes, resumable, and from readers |
//! | `pins` | objects that processes need |
//! | `space` | makes space by evicting objects |
//! | `file_index` | sizes, order of use, holds and pins of objects; pure |
//! | `stamp` | detects modification of files from outside |
//!
//! Programs that run as the same user as the node could write to objects that are staged as hard links. The kernel updates the
//! change time of a file with every modification, and programs cannot set it back. So the store records the change time after each
//! of its own operations on a linked object, and reads and checks the object before the next use if it differs. Objects that
//! have links when the store is opened are checked, too.
//!
//! The store never syncs: after a kill of the node all objects are intact. After a power failure an object may be damaged, so
//! an object that is older than the boot of the machine is checked before its first use.

pub(crate) mod file_index;
mod open;
mod pins;
pub(crate) mod receive;
mod space;
mod stamp;
pub(crate) mod store_state;
pub(crate) mod stored_objects;
