# names.awk - what the public headers offer, from their stripped text (tests/lint/strip.awk):
#   mode=functions  names declared SR1_API
#   mode=names      every public name: functions, types, constants, macros
#   mode=layouts    a C program that prints the size of each public struct and the offset
#                   and size of its members

{
    sub(/^[^:]*:[0-9]+:/, "")
    if (mode == "names") {
        while (match($0, /[A-Za-z_][A-Za-z0-9_]*/)) {
            name = substr($0, RSTART, RLENGTH)
            $0 = substr($0, RSTART + RLENGTH)
            if (name ~ /^(sr1_[a-z]|SR1_[A-Z])/)
                print name
        }
        next
    }
    if ($0 !~ /^[ \t]*#/ && $0 !~ /\\$/)
        text = text " " $0
}

END {
    if (mode == "functions")
        functions()
    if (mode == "layouts")
        layouts()
}

function functions(    n, i, part)
{
    n = split(text, part, /SR1_API/)
    for (i = 2; i <= n; i++) {
        sub(/[ \t]*\(.*/, "", part[i])
        sub(/.*[^A-Za-z0-9_]/, "", part[i])
        print part[i]
    }
}

# The name a member declaration introduces: "double a", "char *b[4]", "int32_t (*c)(...)".
function member_name(decl)
{
    if (match(decl, /\(\*[a-z_0-9]+\)/))
        return substr(decl, RSTART + 2, RLENGTH - 3)
    sub(/\[.*/, "", decl)
    sub(/[ \t]+$/, "", decl)
    sub(/.*[^A-Za-z0-9_]/, "", decl)
    return decl
}

function layouts(    name, body, n, i, member, field)
{
    print "#include <searchr1/searchr1.h>"
    print "#include <searchr1/ext/ext.h>"
    print "#include <stdio.h>"
    print "int main(void) {"
    while (match(text, /typedef struct sr1_[a-z0-9_]+ \{/)) {
        name = substr(text, RSTART + 15, RLENGTH - 17)
        text = substr(text, RSTART + RLENGTH)
        body = substr(text, 1, index(text, "}") - 1)
        printf "printf(\"%s %%zu\\n\", sizeof(%s));\n", name, name
        n = split(body, member, ";")
        for (i = 1; i < n; i++) {
            field = member_name(member[i])
            printf "printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", \
                name, field, name, field, name, field
        }
    }
    print "return 0; }"
}
