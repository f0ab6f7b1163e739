//! Controllers of a process, and the ways of results between them. A task may read results of tasks in other controllers:
//! each controller between them then passes the result on.

use std::collections::{BTreeMap, BTreeSet};

use crate::name_maker::NameMaker;
use crate::order::StructurePart;

/// Results that one script reads as a list. Each takes two of the 190 locals that a script may have.
pub(crate) const MAX_READ: usize = 80;
/// Results that one script passes on. Each takes four of the 230 registers that a script may have.
pub(crate) const MAX_PASSED_ON: usize = 50;

/// A result of a task: the task, and the position of one of its `OUT` parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskOutput {
    pub task: usize,
    pub port: usize,
}

/// `BLOCK` or `PAR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControllerKind {
    Block,
    Par,
}

/// What a controller contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Child {
    Task(usize),
    Controller(usize),
}

/// A controller.
#[derive(Debug)]
pub(crate) struct Controller {
    pub kind: ControllerKind,
    pub name: String,
    parent: Option<usize>,
    /// Children, and for each the positions of the siblings that it waits for.
    pub children: Vec<(Child, Vec<usize>)>,
    /// Results that tasks inside give to tasks outside, or to the process.
    pub exports: BTreeSet<TaskOutput>,
    /// Results that the only task inside needs, and that reach it as a list in a parameter of this controller.
    pub gathers: Vec<TaskOutput>,
}

/// Controllers by number; the first one is the outermost.
pub(crate) struct Layout {
    pub controllers: Vec<Controller>,
    /// For each task: its controller.
    homes: Vec<usize>,
    /// For each product that leaves its controller: the name of the parameter that carries it.
    pub carriers: BTreeMap<TaskOutput, String>,
}

impl Layout {
    /// Lays out the tasks of a structure. `reads` has the results that each task reads, `given` those that the process
    /// gives. `names` has the names of the tasks, and gets those of controllers.
    pub fn new(
        part: &StructurePart,
        reads: &[Vec<TaskOutput>],
        given: &[TaskOutput],
        task_names: &[String],
        names: &mut NameMaker,
    ) -> Self {
        let mut layout = Self { controllers: Vec::new(), homes: vec![0; reads.len()], carriers: BTreeMap::new() };
        // The outermost part is always a controller.
        match part {
            StructurePart::Task(_) => layout.place(&StructurePart::Series(vec![part.clone()]), None, reads, names),
            _ => layout.place(part, None, reads, names),
        };
        for (task, products) in reads.iter().enumerate() {
            products.iter().for_each(|product| layout.carry(*product, Some(layout.homes[task])));
        }
        given.iter().for_each(|product| layout.carry(*product, None));
        let exported: BTreeSet<TaskOutput> =
            layout.controllers.iter().flat_map(|controller| controller.exports.iter().copied()).collect();
        for product in exported {
            let name = names.make(&format!("from_{}_{}", task_names[product.task], product.port + 1));
            layout.carriers.insert(product, name);
        }
        layout
    }

    /// True if some controller passes on more results than one script can read.
    pub fn is_too_wide(&self) -> bool {
        self.controllers.iter().any(|controller| controller.exports.len() > MAX_PASSED_ON)
    }

    // `structure` bounds the depth of parts.
    fn place<'p>(
        &mut self,
        part: &'p StructurePart,
        parent: Option<usize>,
        reads: &[Vec<TaskOutput>],
        names: &mut NameMaker,
    ) -> Child {
        let unlinked = |parts: &'p [StructurePart]| parts.iter().map(|part| (part, &[][..])).collect();
        let (kind, base, parts): (_, _, Vec<(&StructurePart, &[usize])>) = match part {
            StructurePart::Task(task) => return self.task(*task, parent, &reads[*task], names),
            StructurePart::Series(parts) => (ControllerKind::Block, "block", unlinked(parts)),
            StructurePart::Parallel(parts) => (ControllerKind::Par, "par", unlinked(parts)),
            StructurePart::Graph(parts) => {
                (ControllerKind::Par, "graph", parts.iter().map(|(part, after)| (part, after.as_slice())).collect())
            }
        };
        let number = self.controller(kind, names.make(base), parent, Vec::new());
        for (inner, after) in parts {
            let child = self.place(inner, Some(number), reads, names);
            self.controllers[number].children.push((child, after.to_vec()));
        }
        Child::Controller(number)
    }

    /// Places a task. If it reads too many results, blocks around it gather them.
    fn task(&mut self, task: usize, parent: Option<usize>, reads: &[TaskOutput], names: &mut NameMaker) -> Child {
        let (mut outermost, mut home) = (None, parent);
        if reads.len() > MAX_READ {
            for chunk in reads.chunks(MAX_READ) {
                let block = self.controller(ControllerKind::Block, names.make("gather"), home, chunk.to_vec());
                if let Some(home) = home.filter(|_| outermost.is_some()) {
                    self.controllers[home].children.push((Child::Controller(block), Vec::new()));
                }
                outermost = outermost.or(Some(block));
                home = Some(block);
            }
        }
        self.homes[task] = home.unwrap_or(0);
        match (outermost, home) {
            (Some(outermost), Some(home)) => {
                self.controllers[home].children.push((Child::Task(task), Vec::new()));
                Child::Controller(outermost)
            }
            _ => Child::Task(task),
        }
    }

    fn controller(
        &mut self,
        kind: ControllerKind,
        name: String,
        parent: Option<usize>,
        gathers: Vec<TaskOutput>,
    ) -> usize {
        let (children, exports) = (Vec::new(), BTreeSet::new());
        self.controllers.push(Controller { kind, name, parent, children, exports, gathers });
        self.controllers.len() - 1
    }

    /// The controllers around a controller and itself, innermost first.
    fn around(&self, controller: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(controller), |number| self.controllers[*number].parent)
    }

    /// Exports a product from the controllers that are around its task and not around the reader.
    fn carry(&mut self, product: TaskOutput, reader: Option<usize>) {
        let shared: BTreeSet<usize> = reader.map(|reader| self.around(reader).collect()).unwrap_or_default();
        let passing: Vec<usize> =
            self.around(self.homes[product.task]).take_while(|number| !shared.contains(number)).collect();
        for number in passing {
            self.controllers[number].exports.insert(product);
        }
    }

    /// The expression for a product in the scope of a controller: the result of a task in reach, or of the controller
    /// that passes it on.
    pub fn expression(&self, product: TaskOutput, scope: Option<usize>, task_names: &[String], port: &str) -> String {
        let shared: BTreeSet<usize> = scope.map(|scope| self.around(scope).collect()).unwrap_or_default();
        let passing = self.around(self.homes[product.task]).take_while(|number| !shared.contains(number)).last();
        match passing {
            None => format!("{}.{port}", task_names[product.task]),
            Some(controller) => format!("{}.{}", self.controllers[controller].name, self.carriers[&product]),
        }
    }

    /// The controller that a task or controller stands in, and for the expressions of its attributes the scope.
    pub fn home(&self, task: usize) -> usize {
        self.homes[task]
    }

    /// The controller around a controller.
    pub fn parent(&self, controller: usize) -> Option<usize> {
        self.controllers[controller].parent
    }

    /// The parameters of the blocks around a task that gather its results, outermost first.
    pub fn gathering(&self, task: usize) -> Vec<usize> {
        let blocks = self.around(self.homes[task]).take_while(|number| !self.controllers[*number].gathers.is_empty());
        let mut blocks: Vec<usize> = blocks.collect();
        blocks.reverse();
        blocks
    }
}
