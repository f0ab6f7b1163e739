//! Finds the names that a piece of Lua takes from outside: which it reads, which it assigns, and where.
//!
//! The free names are known before the code runs. So `validate` finds misspelt names, the engine passes only the values
//! that the code reads, and a delegated subtree carries only the values that its code reads.

use std::collections::HashMap;
use std::ops::Range;

use full_moon::ast::luau::InterpolatedString;
use full_moon::ast::{
    Block, Call, Expression, Field, FunctionArgs, FunctionBody, FunctionCall, Index, LastStmt, Parameter, Prefix, Stmt,
    Suffix, TableConstructor, Var, VarExpression,
};
use full_moon::tokenizer::{TokenReference, TokenType};

/// One use of a free name in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameUse {
    /// Name.
    pub name: String,
    /// Bytes of the name in the script.
    pub at: Range<usize>,
    /// Field with its bytes, for `name.field`.
    pub field: Option<(String, Range<usize>)>,
    /// Further fields with their bytes, for `name.field.inner`.
    pub inner: Vec<(String, Range<usize>)>,
    /// True if the script assigns something inside `name.field`.
    pub writes_inside: bool,
    /// True if the script assigns the name or its field.
    pub write: bool,
    /// True if the script reads the old value, as in `n += 1`.
    pub read: bool,
}

/// Returns the uses of free names, in order. The first `prefix` bytes of the text are not the author's, so positions do
/// not count them.
pub(super) fn free_names(block: &Block, prefix: usize) -> Vec<NameUse> {
    let mut walker = Walker { locals: Vec::new(), counts: HashMap::new(), uses: Vec::new(), prefix };
    walker.block(block);
    walker.uses
}

struct Walker {
    /// Locals in scope, in the order of their declaration.
    locals: Vec<String>,
    /// Number of declarations in scope for each name. Nested functions can have too many locals to search a list.
    counts: HashMap<String, usize>,
    uses: Vec<NameUse>,
    prefix: usize,
}

/// Returns the text of an identifier; `None` for other tokens.
fn identifier(token: &TokenReference) -> Option<&str> {
    match token.token_type() {
        TokenType::Identifier { identifier } => Some(identifier.as_str()),
        _ => None,
    }
}

impl Walker {
    fn range(&self, token: &TokenReference) -> Range<usize> {
        let start = token.token().start_position().bytes().saturating_sub(self.prefix);
        let end = token.token().end_position().bytes().saturating_sub(self.prefix);
        start..end
    }

    fn declare(&mut self, token: &TokenReference) {
        if let Some(name) = identifier(token) {
            self.declare_name(name);
        }
    }

    fn declare_name(&mut self, name: &str) {
        self.locals.push(name.to_owned());
        *self.counts.entry(name.to_owned()).or_default() += 1;
    }

    fn mention(&mut self, token: &TokenReference, field: Option<&TokenReference>, write: bool, read: bool) {
        let Some(name) = identifier(token) else { return };
        if self.counts.get(name).is_some_and(|count| *count > 0) {
            return;
        }
        let field = field.and_then(|field| self.field(field));
        let (name, at, inner) = (name.to_owned(), self.range(token), Vec::new());
        self.uses.push(NameUse { name, at, field, inner, writes_inside: false, write, read });
    }

    fn field(&self, token: &TokenReference) -> Option<(String, Range<usize>)> {
        Some((identifier(token)?.to_owned(), self.range(token)))
    }

    fn scoped(&mut self, inside: impl FnOnce(&mut Self)) {
        let outer = self.locals.len();
        inside(self);
        for name in self.locals.drain(outer..) {
            self.counts.entry(name).and_modify(|count| *count -= 1);
        }
    }

    fn block(&mut self, block: &Block) {
        self.scoped(|this| this.statements(block));
    }

    fn statements(&mut self, block: &Block) {
        for statement in block.stmts() {
            self.statement(statement);
        }
        if let Some(LastStmt::Return(last)) = block.last_stmt() {
            last.returns().iter().for_each(|value| self.expression(value));
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Assignment(it) => {
                it.expressions().iter().for_each(|value| self.expression(value));
                it.variables().iter().for_each(|target| self.variable(target, true, false));
            }
            Stmt::CompoundAssignment(it) => {
                self.expression(it.rhs());
                self.variable(it.lhs(), true, true);
            }
            Stmt::Do(it) => self.block(it.block()),
            Stmt::FunctionCall(it) => self.call(it),
            Stmt::FunctionDeclaration(it) => {
                let mut names = it.name().names().iter();
                if let Some(root) = names.next() {
                    let field = names.next().or(it.name().method_name());
                    self.mention(root, field, true, false);
                }
                self.function(it.body(), it.name().method_name().is_some());
            }
            Stmt::GenericFor(it) => {
                it.expressions().iter().for_each(|value| self.expression(value));
                self.scoped(|this| {
                    it.names().iter().for_each(|name| this.declare(name));
                    this.block(it.block());
                });
            }
            // `if local x = …` declares x for its branch and for the branches after it.
            Stmt::If(it) => self.scoped(|this| {
                this.condition(it.condition(), it.binding().map(|binding| binding.name()));
                this.block(it.block());
                for other in it.else_if().into_iter().flatten() {
                    this.condition(other.condition(), other.binding().map(|binding| binding.name()));
                    this.block(other.block());
                }
                if let Some(other) = it.else_block() {
                    this.block(other);
                }
            }),
            Stmt::LocalAssignment(it) => {
                it.expressions().iter().for_each(|value| self.expression(value));
                it.names().iter().for_each(|name| self.declare(name));
            }
            Stmt::ConstAssignment(it) => {
                it.expressions().iter().for_each(|value| self.expression(value));
                it.names().iter().for_each(|name| self.declare(name));
            }
            Stmt::LocalFunction(it) => {
                self.declare(it.name());
                self.function(it.body(), false);
            }
            Stmt::ConstFunction(it) => {
                self.declare(it.name());
                self.function(it.body(), false);
            }
            Stmt::NumericFor(it) => {
                self.expression(it.start());
                self.expression(it.end());
                it.step().into_iter().for_each(|step| self.expression(step));
                self.scoped(|this| {
                    this.declare(it.index_variable());
                    this.block(it.block());
                });
            }
            // The condition of a repeat block sees the locals of the block.
            Stmt::Repeat(it) => self.scoped(|this| {
                this.statements(it.block());
                this.expression(it.until());
            }),
            Stmt::While(it) => {
                self.expression(it.condition());
                self.block(it.block());
            }
            // Type declarations name types, not values.
            _ => {}
        }
    }

    fn condition(&mut self, condition: &Expression, binding: Option<&TokenReference>) {
        self.expression(condition);
        if let Some(name) = binding {
            self.declare(name);
        }
    }

    fn function(&mut self, body: &FunctionBody, method: bool) {
        self.scoped(|this| {
            if method {
                this.declare_name("self");
            }
            for parameter in body.parameters() {
                if let Parameter::Name(name) = parameter {
                    this.declare(name);
                }
            }
            this.block(body.block());
        });
    }

    fn variable(&mut self, variable: &Var, write: bool, read: bool) {
        match variable {
            Var::Name(name) => self.mention(name, None, write, read || !write),
            Var::Expression(path) => self.path(path, write, read),
            _ => {}
        }
    }

    fn path(&mut self, path: &VarExpression, write: bool, read: bool) {
        let suffixes: Vec<&Suffix> = path.suffixes().collect();
        self.chain(path.prefix(), &suffixes, write, read);
    }

    fn call(&mut self, call: &FunctionCall) {
        let suffixes: Vec<&Suffix> = call.suffixes().collect();
        self.chain(call.prefix(), &suffixes, false, true);
    }

    /// Walks `prefix.a.b:c(…)`. The first field belongs to the name; only a chain that ends with that field assigns it.
    fn chain(&mut self, prefix: &Prefix, suffixes: &[&Suffix], write: bool, read: bool) {
        match prefix {
            Prefix::Name(name) => match suffixes.first() {
                Some(Suffix::Index(Index::Dot { name: field, .. })) => {
                    let whole = suffixes.len() == 1;
                    let before = self.uses.len();
                    self.mention(name, Some(field), write && whole, read || !write || !whole);
                    let fields = suffixes[1..].iter().map_while(|suffix| match suffix {
                        Suffix::Index(Index::Dot { name, .. }) => self.field(name),
                        _ => None,
                    });
                    let inner: Vec<_> = fields.collect();
                    if let Some(used) = self.uses.get_mut(before) {
                        (used.inner, used.writes_inside) = (inner, write && !whole);
                    }
                }
                _ => self.mention(name, None, false, true),
            },
            Prefix::Expression(inner) => self.expression(inner),
            _ => {}
        }
        for suffix in suffixes {
            match suffix {
                Suffix::Index(Index::Brackets { expression, .. }) => self.expression(expression),
                Suffix::Call(Call::AnonymousCall(arguments)) => self.arguments(arguments),
                Suffix::Call(Call::MethodCall(method)) => self.arguments(method.args()),
                _ => {}
            }
        }
    }

    fn arguments(&mut self, arguments: &FunctionArgs) {
        match arguments {
            FunctionArgs::Parentheses { arguments, .. } => arguments.iter().for_each(|value| self.expression(value)),
            FunctionArgs::TableConstructor(table) => self.table(table),
            _ => {}
        }
    }

    fn table(&mut self, table: &TableConstructor) {
        for field in table.fields() {
            match field {
                Field::ExpressionKey { key, value, .. } => {
                    self.expression(key);
                    self.expression(value);
                }
                Field::NameKey { value, .. } => self.expression(value),
                Field::NoKey(value) => self.expression(value),
                _ => {}
            }
        }
    }

    fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::BinaryOperator { lhs, rhs, .. } => {
                self.expression(lhs);
                self.expression(rhs);
            }
            Expression::Parentheses { expression, .. }
            | Expression::UnaryOperator { expression, .. }
            | Expression::TypeAssertion { expression, .. } => self.expression(expression),
            Expression::Function(function) => self.function(function.body(), false),
            Expression::FunctionCall(call) => self.call(call),
            Expression::IfExpression(it) => self.scoped(|this| {
                this.condition(it.condition(), it.binding().map(|binding| binding.name()));
                this.expression(it.if_expression());
                for other in it.else_if_expressions().into_iter().flatten() {
                    this.condition(other.condition(), other.binding().map(|binding| binding.name()));
                    this.expression(other.expression());
                }
                this.expression(it.else_expression());
            }),
            Expression::InterpolatedString(text) => self.interpolated(text),
            Expression::TableConstructor(table) => self.table(table),
            Expression::Var(variable) => self.variable(variable, false, true),
            _ => {}
        }
    }

    fn interpolated(&mut self, text: &InterpolatedString) {
        text.expressions().for_each(|value| self.expression(value));
    }
}
