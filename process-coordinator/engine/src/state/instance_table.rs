//! The table of live elements: a slab with generations, so that lookup by id takes constant time and the id of an ended
//! element never finds another one.

use serde::{Deserialize, Serialize};

use crate::element_id::ElementId;
use crate::state::instance::Instance;

/// The live elements by id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instances {
    entries: Vec<InstanceEntry>,
    /// Indexes of entries without an element. The next element takes the last one.
    free: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct InstanceEntry {
    generation: u32,
    instance: Option<Instance>,
}

impl Instances {
    /// The id that the next inserted element gets.
    #[inline]
    pub fn next_id(&self) -> ElementId {
        match self.free.last() {
            Some(index) => ElementId { index: *index, generation: self.entries[*index as usize].generation },
            None => ElementId { index: self.entries.len() as u32, generation: 0 },
        }
    }

    #[inline]
    pub fn insert(&mut self, instance: Instance) -> ElementId {
        let id = self.next_id();
        match self.free.pop() {
            Some(index) => self.entries[index as usize].instance = Some(instance),
            None => self.entries.push(InstanceEntry { generation: 0, instance: Some(instance) }),
        }
        id
    }

    #[inline]
    pub fn get(&self, id: ElementId) -> Option<&Instance> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation == id.generation { entry.instance.as_ref() } else { None }
    }

    #[inline]
    pub fn get_mut(&mut self, id: ElementId) -> Option<&mut Instance> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.instance.as_mut() } else { None }
    }

    #[inline]
    pub fn remove(&mut self, id: ElementId) -> Option<Instance> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation != id.generation {
            return None;
        }
        let instance = entry.instance.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(instance)
    }

    pub fn ids(&self) -> impl Iterator<Item = ElementId> + '_ {
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.instance.is_some())
            .map(|(index, entry)| ElementId { index: index as u32, generation: entry.generation })
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
