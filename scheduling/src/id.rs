//! Indices of tasks, files and machines as types of their own, so that no function mixes them up.

macro_rules! id {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id for a position in an array.
            ///
            /// Positions beyond `u32::MAX` do not occur: the builders of problems refuse that many elements.
            pub fn new(index: usize) -> Self {
                Self(index as u32)
            }

            /// The position in arrays.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(TaskId, "A task of a workflow, numbered in the order of its definition.");
id!(FileId, "A file of a workflow, numbered in the order of its definition.");
id!(MachineId, "A machine of a platform, numbered in the order of its definition.");
