# strip.awk - print C sources as "FILE:LINE:CODE", with comments left out and the insides of
# string and character literals blanked, so that the lints see code only.

FNR == 1 { in_comment = 0 }

{
    line = $0
    if (!in_comment && line !~ /["'\/]/) {
        print FILENAME ":" FNR ":" line
        next
    }
    code = ""
    quote = ""
    n = length(line)
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\")
                i++
            else if (c == quote) {
                code = code c
                quote = ""
            }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            break
        } else {
            if (c == "\"" || c == "'")
                quote = c
            code = code c
        }
    }
    print FILENAME ":" FNR ":" code
}
