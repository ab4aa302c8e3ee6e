#!/usr/bin/env python3
"""describe.py FOLDER PROGRAM... - manual pages and completions of shells, from --help.

Writes for each PROGRAM its page FOLDER/NAME.1, and FOLDER/NAME (bash) and FOLDER/_NAME (zsh).

The help of every tool (tools/common/args.c) has usage lines, paragraphs, indented examples
and "Options:", two columns. The page keeps the lines as they are, since their columns mean
something. Keys of the configuration come from `sr1-train --keys`; tools whose usage takes
key=value complete them.
"""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

OPTION = re.compile(r"^  (--?[a-zA-Z][-a-z0-9]*)(?: (\S+))?(?:  +(.*))?$")
COMMAND = re.compile(r"^(?:usage:|      ) (sr1-[a-z]+) ([a-z][-a-z0-9]+)\b")
KEY = re.compile(r"^  ([a-z][a-z0-9_]*)  ?\s*(\S.*)?$")


def output_of(program, *words):
    done = subprocess.run(
        [str(program), *words], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    return done.stdout


class Help:
    """What --help of a program says, in parts."""

    def __init__(self, program):
        self.name = Path(program).name
        text = output_of(program, "--help")
        self.body, _, options = text.partition("\nOptions:\n")
        self.options = []  # [flag, value or "", text]
        for line in options.splitlines():
            match = OPTION.match(line)
            if match:
                self.options.append([match[1], match[2] or "", match[3] or ""])
            elif self.options and line.startswith("   "):
                self.options[-1][2] = (self.options[-1][2] + " " + line.strip()).strip()
        commands = (COMMAND.match(line) for line in self.body.splitlines())
        self.commands = list(dict.fromkeys(m[2] for m in commands if m))
        self.takes_keys = "key=value" in self.body


def keys_of(train):
    """[(key, [choices])], as sr1-train lists them."""
    text = output_of(train, "--keys")
    keys = []
    for block in re.split(r"\n(?=  [a-z])", text):
        match = KEY.match(block.splitlines()[0])
        if match:
            flat = re.sub(r" ?\| ?", "|", " ".join(block.split()))
            choices = re.search(r"\[([a-z0-9_.-]+(?:\|[a-z0-9_.-]+)+)\]", flat)
            keys.append((match[1], choices[1].split("|") if choices else []))
    return keys


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def print_man(h, version):
    usage, _, rest = h.body.partition("\n\n")
    print(f'.TH {h.name.upper()} 1 "" "searchr1 {version}" "User Commands"')
    print(f".SH NAME\n{h.name} \\- part of searchr1, which trains language models to search,")
    print("use tools and answer by reinforcement learning")
    print(f".SH SYNOPSIS\n.nf\n{roff(usage.replace('usage: ', '       ', 1))}\n.fi")
    print(f".SH DESCRIPTION\n.nf\n{roff(rest.strip())}\n.fi\n.SH OPTIONS")
    for flag, value, text in h.options:
        print(f".TP\n.B {roff(flag)} {roff(value)}\n{roff(text)}")
    print(".SH SEE ALSO\nThe pages in share/doc/searchr1; begin with README.md.")


def values_of(keys):
    return " ".join(f"{key}={choice}" for key, choices in keys for choice in choices)


def words_of(h):
    return " ".join(h.commands + [option[0] for option in h.options])


# In bash '=' parts words: key=val is three of them.
BASH = """# Completion of {name}, made from its --help.
_{function}()
{{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=
    if [ "$word" = '=' ]; then
        before=${{COMP_WORDS[COMP_CWORD - 1]}}= word=
    elif [ "${{COMP_WORDS[COMP_CWORD - 1]}}" = '=' ]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}=
    fi
    if [ -n "$before" ]; then
        COMPREPLY=($(compgen -W "{values}" -- "$before$word"))
        COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
        [ -n "${{COMPREPLY[0]-}}" ] || COMPREPLY=($(compgen -f -- "$word"))
        return
    fi
    COMPREPLY=($(compgen -W "{words}" -- "$word")
        $(compgen -S = -W "{keys}" -- "$word") $(compgen -f -- "$word"))
    if [[ ${{COMPREPLY[0]-}} == *= ]]; then
        compopt -o nospace
    fi
}}
complete -o filenames -F _{function} {name}"""

ZSH = """#compdef {name}
# Completion of {name}, made from its --help.
compadd -- {words}
compadd -S '' -- {equal}
[[ $PREFIX == *=* ]] && compadd -- {values}
_files"""


def print_shell(form, h, keys):
    names = [key for key, _ in keys]
    print(
        form.format(
            name=h.name,
            function=h.name.replace("-", "_"),
            words=words_of(h),
            keys=" ".join(names),
            equal=" ".join(name + "=" for name in names),
            values=values_of(keys),
        )
    )


def write(path, function, *arguments):
    with open(path, "w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
        function(*arguments)


def main(folder, programs):
    version = output_of(programs[0], "--version").split()[1]
    train = next(p for p in programs if Path(p).name == "sr1-train")
    keys = keys_of(train)
    for program in programs:
        h = Help(program)
        known = keys if h.takes_keys else []
        write(folder / f"{h.name}.1", print_man, h, version)
        write(folder / h.name, print_shell, BASH, h, known)
        write(folder / f"_{h.name}", print_shell, ZSH, h, known)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: describe.py FOLDER PROGRAM...")
    main(Path(sys.argv[1]), sys.argv[2:])
