//! Pieces of process definitions that several tests use.

/// A document with these process and activity types.
pub fn document(types: &[String]) -> String {
    format!("<XAVANTES VERSION=\"1\">\n{}</XAVANTES>\n", types.concat())
}

/// A process type with these parameters and this body.
pub fn process_type(name: &str, parameters: &[String], body: &str) -> String {
    format!("<PROCESS_TYPE NAME=\"{name}\">{}<BODY>{body}</BODY></PROCESS_TYPE>\n", parameters.concat())
}

/// An activity type with these declarations, whose code is a command with these arguments.
pub fn command_type(name: &str, declarations: &[String], arguments: &[&str]) -> String {
    let arguments: String = arguments.iter().map(|argument| format!("<ARG>{}</ARG>", escape(argument))).collect();
    let code = format!("<CODE LANGUAGE=\"command\">{arguments}</CODE>");
    format!("<ACTIVITY_TYPE NAME=\"{name}\">{}{code}</ACTIVITY_TYPE>\n", declarations.concat())
}

/// An activity type with these declarations, whose code is a shell script. The arguments are `$1`, `$2`, … in the script.
pub fn shell_type(name: &str, declarations: &[String], script: &str, arguments: &[&str]) -> String {
    command_type(name, declarations, &[&["sh", "-c", script, "sh"], arguments].concat())
}

/// `IN` parameters, each as `type name`, separated by commas.
pub fn inputs(parameters: &str) -> String {
    declare("IN_PARAMETER", parameters)
}

/// `INOUT` parameters, each as `type name`, separated by commas.
pub fn inouts(parameters: &str) -> String {
    declare("INOUT_PARAMETER", parameters)
}

/// `OUT` parameters, each as `type name`, separated by commas.
pub fn outputs(parameters: &str) -> String {
    declare("OUT_PARAMETER", parameters)
}

/// The declaration that files which match a pattern become the value of a parameter.
pub fn output_file(parameter: &str, pattern: &str) -> String {
    format!("<OUTPUT PARAMETER=\"{parameter}\" PATTERN=\"{pattern}\"/>")
}

/// Attributes that pass these variables on, each under its own name.
pub fn pass_on(variables: &str) -> String {
    variables.split(' ').map(|name| format!(" {name}=\"${{{name}}}\"")).collect()
}

fn declare(element: &str, parameters: &str) -> String {
    let declared = parameters.split(", ").map(|parameter| {
        let (ty, name) = parameter.split_once(' ').unwrap_or_else(|| panic!("{parameter:?} is not \"type name\""));
        format!("<{element} TYPE=\"{ty}\" NAME=\"{name}\"/>")
    });
    declared.collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
