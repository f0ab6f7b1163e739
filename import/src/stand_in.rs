//! Activity types that stand in for programs that are not here: they do nothing, sleep, or compute for the estimated
//! time, and make files of the estimated sizes if asked.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::name_maker::NameMaker;
use crate::xml_text::{attribute, content};

/// What activities do instead of the programs of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// Nothing.
    None,
    /// Sleep for the estimated time.
    Sleep,
    /// Compute for the estimated time.
    Burn,
}

/// Activity types, by what they stand in for and by the number of files that they make.
pub(crate) struct StandIns {
    stand_in: StandIn,
    makes_files: bool,
    names: NameMaker,
    known: HashMap<(String, usize), String>,
    /// The types as XML.
    pub text: String,
}

impl StandIns {
    pub fn new(stand_in: StandIn, makes_files: bool, names: NameMaker) -> Self {
        Self { stand_in, makes_files, names, known: HashMap::new(), text: String::new() }
    }

    /// Returns the name of the type for tasks of this kind that make this many files.
    pub fn type_name(&mut self, kind: &str, files: usize) -> String {
        let key = (kind.to_owned(), files);
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        let name = self.names.make(kind);
        let mut text = format!("  <ACTIVITY_TYPE{}>\n", attribute("NAME", &name));
        if name != kind {
            text.push_str("    <DESCRIPTION>");
            content(&mut text, kind);
            text.push_str("</DESCRIPTION>\n");
        }
        match self.makes_files {
            true => self.with_files(&mut text, files),
            false => self.without_files(&mut text),
        }
        text.push_str("  </ACTIVITY_TYPE>\n");
        self.text.push_str(&text);
        self.known.insert(key, name.clone());
        name
    }

    /// Whether the types have the parameters `seconds` and `scale`.
    pub fn takes_time(&self) -> bool {
        self.stand_in != StandIn::None
    }

    fn time_parameters(&self, text: &mut String) {
        if self.takes_time() {
            text.push_str("    <IN_PARAMETER TYPE=\"float\" NAME=\"seconds\"/>\n");
        }
        if self.takes_time() || self.makes_files {
            text.push_str("    <IN_PARAMETER TYPE=\"float\" NAME=\"scale\" DEFAULT=\"1\"/>\n");
        }
    }

    fn without_files(&self, text: &mut String) {
        self.time_parameters(text);
        text.push_str(match self.stand_in {
            StandIn::None => "    <CODE LANGUAGE=\"lua\">local nothing</CODE>\n",
            StandIn::Sleep => {
                "    <CODE LANGUAGE=\"command\"><ARG>sleep</ARG><ARG>${seconds * scale}</ARG></CODE>\n"
            }
            // `timeout` ends the loop with status 124; a time of 0 would mean no end.
            StandIn::Burn => {
                "    <CODE LANGUAGE=\"command\" SUCCESS=\"124\"><ARG>timeout</ARG><ARG>${math.max(seconds * scale, 0.001)}</ARG>\
                 <ARG>sh</ARG><ARG>-c</ARG><ARG>while :; do :; done</ARG></CODE>\n"
            }
        });
    }

    /// A type whose programs make files: `names` and `sizes` are separated by slashes, which names of files do not have.
    fn with_files(&self, text: &mut String, files: usize) {
        self.time_parameters(text);
        text.push_str("    <IN_PARAMETER TYPE=\"list\" NAME=\"inputs\" OPTIONAL=\"true\"/>\n");
        text.push_str("    <IN_PARAMETER TYPE=\"string\" NAME=\"names\" DEFAULT=\"\"/>\n");
        text.push_str("    <IN_PARAMETER TYPE=\"list\" NAME=\"sizes\" DEFAULT=\"[]\"/>\n");
        for file in 1..=files {
            let _ = writeln!(text, "    <OUT_PARAMETER TYPE=\"file\" NAME=\"out{file}\"/>");
        }
        for file in 1..=files {
            let _ = writeln!(text, "    <OUTPUT PARAMETER=\"out{file}\" PATTERN=\"out/{file}/*\"/>");
        }
        text.push_str(
            "    <ENV NAME=\"bytes\" VALUE=\"${(function() local all = {} for place, size in sizes do \
             all[place] = string.format('%d', math.floor(size * scale)) end return table.concat(all, '/') end)()}\"/>\n",
        );
        if self.takes_time() {
            text.push_str("    <ENV NAME=\"duration\" VALUE=\"${math.max(seconds * scale, 0.001)}\"/>\n");
        }
        // Each file begins with its name, so that the contents of two files differ and neither stands for the other.
        text.push_str(
            "    <CODE LANGUAGE=\"bash\"><![CDATA[\n      IFS=/ read -ra name <<< \"$names\"\n      \
             IFS=/ read -ra size <<< \"$bytes\"\n      for i in \"${!name[@]}\"; do\n        \
             mkdir -p \"out/$((i + 1))\"\n        \
             head -c \"${size[i]}\" < <(printf '%s' \"${name[i]}\"; cat /dev/zero) > \"out/$((i + 1))/${name[i]}\"\n      \
             done\n",
        );
        text.push_str(match self.stand_in {
            StandIn::None => "",
            StandIn::Sleep => "      sleep \"$duration\"\n",
            StandIn::Burn => "      timeout \"$duration\" sh -c 'while :; do :; done' || test $? = 124\n",
        });
        text.push_str("    ]]></CODE>\n");
    }
}
