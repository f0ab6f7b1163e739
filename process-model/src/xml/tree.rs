//! The tree that a document becomes. Every part knows the bytes of the source that it was written with.

use std::ops::Range;

use super::mapped_text::MappedText;

/// Names an element of a [`XmlTree`]. It is meaningful only for the tree that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct XmlElementId(pub(super) u32);

/// A whole document. It has at least a root element.
#[derive(Debug, Clone)]
pub struct XmlTree {
    // In document order, so the root comes first. Elements refer to each other by position, so dropping a deeply
    // nested tree does not recurse.
    pub(super) elements: Vec<XmlElement>,
}

/// An element with its content. The parser drops comments and processing instructions.
#[derive(Debug, Clone)]
pub struct XmlElement {
    /// Tag name.
    pub name: String,
    /// Bytes of the name in the start tag.
    pub name_span: Range<usize>,
    /// Bytes of the start tag, from `<` to `>`.
    pub span: Range<usize>,
    /// Offset just after the end tag, or just after a start tag that closes itself (`<A/>`).
    pub end: usize,
    /// Attributes in written order, without those that concern XML itself (`xmlns:xsi`, `xml:lang`, …).
    pub attributes: Vec<Attribute>,
    /// Elements and text in written order.
    pub children: Vec<XmlChild>,
    /// Enclosing element; the root has none.
    pub parent: Option<XmlElementId>,
    /// Nesting depth: 1 for the root.
    pub depth: usize,
}

/// One item directly inside an element.
#[derive(Debug, Clone)]
pub enum XmlChild {
    /// An element.
    Element(XmlElementId),
    /// A piece of text.
    Text(Text),
}

/// A piece of text: either one CDATA section, or text and references up to the next markup.
#[derive(Debug, Clone)]
pub struct Text {
    /// Decoded text.
    pub value: MappedText,
    /// Bytes in the source, including the delimiters of a CDATA section.
    pub span: Range<usize>,
    /// True for a CDATA section.
    pub cdata: bool,
}

/// An attribute.
#[derive(Debug, Clone)]
pub struct Attribute {
    /// Attribute name.
    pub name: String,
    /// Bytes of the name.
    pub name_span: Range<usize>,
    /// Value, decoded and normalised.
    pub value: MappedText,
    /// Bytes of the value, without its quotes.
    pub value_span: Range<usize>,
}

impl XmlElement {
    /// Returns the attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Iterates over the child elements.
    pub fn elements(&self) -> impl Iterator<Item = XmlElementId> {
        self.children.iter().filter_map(|child| match child {
            XmlChild::Element(id) => Some(*id),
            XmlChild::Text(_) => None,
        })
    }

    /// Iterates over the pieces of text directly inside.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.children.iter().filter_map(|child| match child {
            XmlChild::Element(_) => None,
            XmlChild::Text(text) => Some(text),
        })
    }
}

impl XmlTree {
    /// Returns the outermost element.
    pub fn root(&self) -> XmlElementId {
        XmlElementId(0)
    }

    /// Returns the element that `id` names.
    ///
    /// # Panics
    ///
    /// If `id` belongs to another, larger tree.
    pub fn element(&self, id: XmlElementId) -> &XmlElement {
        &self.elements[id.0 as usize]
    }

    /// Iterates over the child elements of `parent`.
    pub fn children(&self, parent: XmlElementId) -> impl Iterator<Item = (XmlElementId, &XmlElement)> {
        self.element(parent).elements().map(|child| (child, self.element(child)))
    }

    /// Iterates over all elements in document order.
    pub fn elements(&self) -> impl Iterator<Item = (XmlElementId, &XmlElement)> {
        self.elements.iter().enumerate().map(|(index, element)| (XmlElementId(index as u32), element))
    }

    /// Joins the pieces of text directly inside `parent`, without the text of its child elements. Returns `None` if
    /// there is no piece of text.
    pub fn text(&self, parent: XmlElementId) -> Option<MappedText> {
        let mut texts = self.element(parent).texts();
        let mut joined = texts.next()?.value.clone();
        texts.for_each(|text| joined.append(&text.value));
        Some(joined)
    }
}
