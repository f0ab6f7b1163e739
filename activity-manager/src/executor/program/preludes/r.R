# Runs the R code of an activity. Its parameters are variables; the variables of its OUT parameters are its results.
# It reads and writes JSON itself, because R alone cannot.
local({
  folder <- Sys.getenv("XAVANTES_DIRECTORY")
  script <- file.path(folder, "script")
  connection <- NULL

  unescape <- function(text) {
    if (!grepl("\\", text, fixed = TRUE)) return(text)
    pieces <- regmatches(text, gregexpr("\\\\u[0-9a-fA-F]{4}|\\\\.|[^\\\\]+", text, perl = TRUE))[[1]]
    one <- function(piece) {
      switch(substr(piece, 1, 2),
        "\\n" = "\n", "\\t" = "\t", "\\r" = "\r", "\\b" = "\b", "\\f" = "\f",
        "\\u" = intToUtf8(strtoi(substr(piece, 3, 6), 16L)),
        if (startsWith(piece, "\\")) substr(piece, 2, 2) else piece)
    }
    paste0(vapply(pieces, one, ""), collapse = "")
  }

  number <- function(token) {
    value <- as.numeric(token)
    whole <- !grepl("[.eE]", token)
    if (whole && abs(value) <= .Machine$integer.max) as.integer(value) else value
  }

  # Scalars of one kind become a vector.
  simplify <- function(items) {
    plain <- function(kind) all(vapply(items, function(it) kind(it) && length(it) == 1, NA))
    if (length(items) > 0 && (plain(is.character) || plain(is.logical) || plain(is.numeric))) unlist(items) else items
  }

  special <- function(value) {
    inner <- value[[1]]
    switch(names(value),
      "$int" = stop(sprintf("the integer %s does not fit into a number of R: declare the parameter as a string", inner), call. = FALSE),
      "$float" = as.numeric(inner),
      "$bytes" = as.raw(strtoi(substring(inner, seq_len(nchar(inner) / 2) * 2 - 1, seq_len(nchar(inner) / 2) * 2), 16L)),
      "$shared" = structure(list(kind = inner$kind, number = inner$object), class = "XavantesShared"),
      value)
  }

  parse_json <- function(text) {
    pattern <- "\"(?:[^\"\\\\]|\\\\.)*\"|[\\[\\]{}:,]|[^\\[\\]{}:,\"\\s]+"
    tokens <- regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1]]
    at <- 0L
    read <- function() {
      at <<- at + 1L
      token <- tokens[[at]]
      first <- substr(token, 1, 1)
      if (first == "\"") return(unescape(substr(token, 2, nchar(token) - 1)))
      if (first == "[" || first == "{") {
        items <- list()
        keys <- character()
        while (!(tokens[[at + 1L]] %in% c("]", "}"))) {
          if (tokens[[at + 1L]] == ",") at <<- at + 1L
          if (first == "{") {
            keys <- c(keys, read())
            at <<- at + 1L
          }
          items <- c(items, list(read()))
        }
        at <<- at + 1L
        if (first == "[") return(simplify(items))
        names(items) <- keys
        return(if (length(items) == 1 && startsWith(keys, "$")) special(items) else items)
      }
      switch(token, "null" = NULL, "true" = TRUE, "false" = FALSE, number(token))
    }
    read()
  }

  quoted <- function(text) {
    text <- enc2utf8(text)
    text <- gsub("\\", "\\\\", text, fixed = TRUE)
    text <- gsub("\"", "\\\"", text, fixed = TRUE)
    for (code in c(1:31)) {
      if (any(grepl(intToUtf8(code), text, fixed = TRUE))) {
        text <- gsub(intToUtf8(code), sprintf("\\u%04x", code), text, fixed = TRUE)
      }
    }
    paste0("\"", text, "\"")
  }

  scalars <- function(value) {
    if (is.factor(value)) value <- as.character(value)
    if (is.character(value)) shown <- quoted(value)
    else if (is.logical(value)) shown <- ifelse(value, "true", "false")
    else if (is.integer(value)) shown <- sprintf("%d", value)
    else if (is.numeric(value)) {
      shown <- sprintf("%.17g", value)
      shown[is.nan(value)] <- "{\"$float\":\"NaN\"}"
      shown[is.infinite(value)] <- ifelse(value[is.infinite(value)] > 0, "{\"$float\":\"inf\"}", "{\"$float\":\"-inf\"}")
    } else stop(sprintf("an R value of the class %s is no value of a process", class(value)[1]), call. = FALSE)
    shown[is.na(value) & !is.nan(suppressWarnings(as.numeric(value)))] <- "null"
    shown
  }

  list_of <- function(items) paste0("[", paste(items, collapse = ","), "]")
  map_of <- function(keys, items) paste0("{", paste(paste0(quoted(keys), ":", items), collapse = ","), "}")

  encode <- function(value, type = "") {
    if (is.null(value)) return("null")
    if (inherits(value, "XavantesShared")) return(sprintf("{\"$shared\":{\"object\":%d}}", unclass(value)$number))
    if (is.raw(value)) return(sprintf("{\"$bytes\":\"%s\"}", paste(value, collapse = "")))
    if (is.data.frame(value) && type == "list") {
      rows <- lapply(seq_len(nrow(value)), function(row) lapply(as.list(value), function(column) column[[row]]))
      return(list_of(vapply(rows, encode, "", "map")))
    }
    if (is.data.frame(value)) return(map_of(names(value), vapply(as.list(value), encode, "", "list")))
    named <- !is.null(names(value)) && type %in% c("", "map")
    items <- if (is.list(value)) vapply(value, encode, "") else scalars(value)
    if (named || (type == "map" && length(value) == 0)) return(if (length(value) == 0) "{}" else map_of(names(value), items))
    if (is.list(value) || length(value) != 1 || type == "list") list_of(items) else items
  }

  # R has no Unix sockets: a command of the worker makes the calls.
  connect <- function() {
    command <- Sys.getenv("XAVANTES_COMMAND", "xavantes")
    answers <- file.path(folder, "tmp", sprintf("answers-%d", Sys.getpid()))
    if (Sys.which(command) == "" || system2("mkfifo", shQuote(answers)) != 0) {
      stop("shared objects need the commands xavantes and mkfifo here", call. = FALSE)
    }
    calls <- pipe(sprintf("exec %s shared --stream > %s", shQuote(command), shQuote(answers)), "w")
    connection <<- list(process = Sys.getpid(), calls = calls, answers = fifo(answers, "r", blocking = TRUE))
    unlink(answers)
  }

  call_shared <- function(object, method, arguments) {
    if (is.null(connection) || connection$process != Sys.getpid()) connect()
    arguments <- list_of(vapply(arguments, encode, ""))
    call <- sprintf("{\"object\":%d,\"method\":%s,\"arguments\":%s}", unclass(object)$number, quoted(method), arguments)
    writeLines(call, connection$calls)
    flush(connection$calls)
    answer <- readLines(connection$answers, 1, encoding = "UTF-8")
    if (length(answer) == 0) stop("the connection for shared objects failed", call. = FALSE)
    answer <- parse_json(answer)
    if (!is.null(answer[["error"]])) stop(answer[["error"]], call. = FALSE)
    answer[["value"]]
  }
  registerS3method("$", "XavantesShared", function(x, name) function(...) call_shared(x, name, list(...)))
  registerS3method("print", "XavantesShared", function(x, ...) cat(unclass(x)$kind, "\n"))

  given <- parse_json(paste(readLines(file.path(folder, "values.json"), encoding = "UTF-8", warn = FALSE), collapse = "\n"))
  process <- Sys.getpid()
  written <- FALSE
  write_results <- function() {
    if (written || Sys.getpid() != process) return(invisible())
    written <<- TRUE
    values <- problems <- character()
    for (name in names(given$outs)) {
      if (!exists(name, envir = globalenv(), inherits = FALSE)) next
      result <- tryCatch(
        list(value = encode(get(name, envir = globalenv()), given$outs[[name]])),
        error = function(problem) list(problem = conditionMessage(problem)))
      if (is.null(result$problem)) values[[name]] <- result$value else problems[[name]] <- quoted(result$problem)
    }
    shown <- function(members) if (length(members) == 0) "{}" else map_of(names(members), members)
    text <- sprintf("{\"values\":%s,\"problems\":%s}", shown(values), shown(problems))
    cat(text, file = file.path(folder, "assigned.json"))
  }
  for (name in names(given$values)) assign(name, given$values[[name]], envir = globalenv())
  # Also if the code calls quit().
  assign(".Last", write_results, envir = globalenv())
  source(script, local = globalenv(), print.eval = TRUE, keep.source = TRUE, encoding = "UTF-8")
  write_results()
}, envir = new.env(parent = baseenv()))
