//! XML elements that tests can change.

/// An element. Values and text are as written, with references.
#[derive(Clone)]
pub struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Child>,
}

/// One item inside an element.
#[derive(Clone)]
pub enum Child {
    Element(Element),
    /// Text, a comment or another item, as written.
    Written(String),
}

impl Element {
    pub fn parse(text: &str) -> Self {
        let document = roxmltree::Document::parse(text).expect("the document is well-formed");
        Self::from(document.root_element())
    }

    /// Parses a document and writes it again.
    pub fn read(text: &str) -> String {
        Self::parse(text).to_string()
    }

    fn from(node: roxmltree::Node) -> Self {
        let children = node.children().filter_map(|child| match child.text() {
            _ if child.is_element() => Some(Child::Element(Self::from(child))),
            Some(text) if child.is_text() => Some(Child::Written(escape(text))),
            _ => None,
        });
        Self {
            name: node.tag_name().name().into(),
            attributes: node.attributes().map(|it| (it.name().into(), escape(it.value()))).collect(),
            children: children.collect(),
        }
    }

    /// Returns the number of elements in this one, including itself.
    pub fn elements(&self) -> usize {
        1 + self.inner().map(Element::elements).sum::<usize>()
    }

    fn inner(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|child| match child {
            Child::Element(element) => Some(element),
            Child::Written(_) => None,
        })
    }

    /// Returns the element at a position in document order.
    pub fn nth(&mut self, position: usize) -> &mut Element {
        if position == 0 {
            return self;
        }
        let mut rest = position - 1;
        for child in &mut self.children {
            let Child::Element(element) = child else { continue };
            let elements = element.elements();
            if rest < elements {
                return element.nth(rest);
            }
            rest -= elements;
        }
        unreachable!("there is no element {position}")
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"{value}\"")?;
        }
        f.write_str(">")?;
        for child in &self.children {
            match child {
                Child::Element(element) => write!(f, "{element}")?,
                Child::Written(text) => f.write_str(text)?,
            }
        }
        write!(f, "</{}>", self.name)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
