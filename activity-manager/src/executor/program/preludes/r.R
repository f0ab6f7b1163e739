# Runs the R code of an activity. Its parameters are variables; the variables of its OUT parameters are its results.
# It reads and writes JSON itself, because R alone cannot.
local({
  folder <- Sys.getenv("XAVANTES_DIRECTORY")
  script <- file.path(folder, "script")
  connection <- NULL

  # Texts are UTF-8, also where the locale of the program cannot show it.
  if (!isTRUE(l10n_info()[["UTF-8"]])) suppressWarnings(Sys.setlocale("LC_CTYPE", "C.UTF-8"))

  # The parts of a text that match. Counting bytes, not characters, takes time in proportion to the length of the text.
  parts <- function(text, pattern) {
    found <- gregexpr(pattern, text, perl = TRUE, useBytes = TRUE)[[1]]
    Encoding(text) <- "latin1"
    cut <- substring(text, found, found + attr(found, "match.length") - 1L)
    Encoding(cut) <- "UTF-8"
    cut
  }

  unescape <- function(text) {
    pieces <- parts(text, "\\\\u[0-9a-fA-F]{4}|\\\\.|[^\\\\]++")
    names <- c("\\n", "\\t", "\\r", "\\b", "\\f", "\\\"", "\\\\", "\\/")
    meant <- match(pieces, names)
    coded <- startsWith(pieces, "\\u")
    pieces[coded] <- intToUtf8(strtoi(substr(pieces[coded], 3, 6), 16L), multiple = TRUE)
    pieces[!is.na(meant)] <- c("\n", "\t", "\r", "\b", "\f", "\"", "\\", "/")[meant[!is.na(meant)]]
    paste0(pieces, collapse = "")
  }

  # Scalars of one kind become a vector.
  simplify <- function(items) {
    plain <- function(kind) all(vapply(items, function(it) kind(it) && length(it) == 1 && !inherits(it, "AsIs"), NA))
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

  # A vector that is deeper than this stays a list if it has one item.
  parse_json <- function(text, depth) {
    tokens <- parts(text, "\"[^\"\\\\]*+(?:\\\\.[^\"\\\\]*+)*+\"|[\\[\\]{}:,]|[^\\[\\]{}:,\"\\s]++")
    first <- substr(tokens, 1, 1)
    texts <- first == "\""
    escaped <- texts & grepl("\\", tokens, fixed = TRUE, useBytes = TRUE)
    tokens[texts] <- substr(tokens[texts], 2, nchar(tokens[texts], "bytes"))
    tokens[texts] <- substr(tokens[texts], 1, nchar(tokens[texts]) - 1L)
    tokens[escaped] <- vapply(tokens[escaped], unescape, "")
    numeric <- grepl("^[-0-9]", first)
    numbers <- rep(NA_real_, length(tokens))
    numbers[numeric] <- as.numeric(tokens[numeric])
    whole <- numeric & !grepl("[.eE]", tokens, useBytes = TRUE) & abs(numbers) <= .Machine$integer.max
    at <- 0L
    read <- function(depth) {
      at <<- at + 1L
      kind <- first[[at]]
      if (kind == "\"") return(tokens[[at]])
      if (kind == "[" || kind == "{") {
        items <- list()
        keys <- character()
        count <- 0L
        while (!(first[[at + 1L]] %in% c("]", "}"))) {
          if (first[[at + 1L]] == ",") at <<- at + 1L
          count <- count + 1L
          if (kind == "{") {
            keys[[count]] <- tokens[[at + 1L]]
            at <<- at + 2L
          }
          items[count] <- list(read(depth - 1L))
        }
        at <<- at + 1L
        if (kind == "[") {
          vector <- simplify(items)
          return(if (depth < 0L && !is.list(vector) && count == 1L) I(vector) else vector)
        }
        names(items) <- keys
        return(if (count == 1L && startsWith(keys, "$")) special(items) else items)
      }
      if (whole[[at]]) return(as.integer(numbers[[at]]))
      if (numeric[[at]]) return(numbers[[at]])
      switch(kind, "n" = NULL, "t" = TRUE, "f" = FALSE)
    }
    read(depth)
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
    if (length(value) == 0 && is.atomic(value)) return(character())
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
    if (is.list(value) || length(value) != 1 || type == "list" || (type == "" && inherits(value, "AsIs"))) list_of(items) else items
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
    writeLines(enc2utf8(call), connection$calls, useBytes = TRUE)
    flush(connection$calls)
    answer <- readLines(connection$answers, 1, encoding = "UTF-8")
    if (length(answer) == 0) stop("the connection for shared objects failed", call. = FALSE)
    answer <- parse_json(answer, 1L)
    if (!is.null(answer[["error"]])) stop(answer[["error"]], call. = FALSE)
    answer[["value"]]
  }
  registerS3method("$", "XavantesShared", function(x, name) function(...) call_shared(x, name, list(...)))
  registerS3method("print", "XavantesShared", function(x, ...) cat(unclass(x)$kind, "\n"))

  given <- file.path(folder, "values.json")
  given <- parse_json(rawToChar(readBin(given, "raw", file.size(given))), 2L)
  process <- Sys.getpid()
  written <- FALSE
  write_results <- function() {
    if (written || Sys.getpid() != process) return(invisible())
    written <<- TRUE
    values <- problems <- character()
    for (name in names(given$outs)) {
      if (!exists(name, envir = globalenv(), inherits = FALSE)) next
      # A parameter that the code did not change keeps its value.
      if (!is.null(given$values[[name]]) && identical(get(name, envir = globalenv()), given$values[[name]])) next
      result <- tryCatch(
        list(value = encode(get(name, envir = globalenv()), given$outs[[name]])),
        error = function(problem) list(problem = conditionMessage(problem)))
      if (is.null(result$problem)) values[[name]] <- result$value else problems[[name]] <- quoted(result$problem)
    }
    shown <- function(members) if (length(members) == 0) "{}" else map_of(names(members), members)
    text <- sprintf("{\"values\":%s,\"problems\":%s}", shown(values), shown(problems))
    writeBin(charToRaw(enc2utf8(text)), file.path(folder, "assigned.json"))
  }
  for (name in names(given$values)) assign(name, given$values[[name]], envir = globalenv())
  # Also if the code calls quit().
  assign(".Last", write_results, envir = globalenv())
  source(script, local = globalenv(), print.eval = TRUE, keep.source = TRUE, encoding = "UTF-8")
  write_results()
}, envir = new.env(parent = baseenv()))
