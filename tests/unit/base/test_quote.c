/* Words that are printed for a shell are read back by one, and paths that only a shell
 * would have expanded are told apart. */
#include "base/error.h"
#include "base/quote.h"

#include "../../../tools/common/quote.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

_Static_assert(QUOTED_SIZE == SR1__QUOTED_SIZE, "the tools compile the same function");

static void a_shell_reads_the_word_back(void **state)
{
    static const char *const words[] = {
        "runs/first", "with a space", "it's",   "a\"b",     "$HOME",      "`id`",
        "a;b|c&d",    "für 東",       "*",      "",         "two\nlines", "~/x",
        "key=value",  "back\\slash",  "(x) #1", "'quoted'", "!x{a,b}",
    };
    char command[SR1__QUOTED_SIZE + 20], quoted[SR1__QUOTED_SIZE], said[100];

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        FILE *shell;
        size_t n;

        sr1__quote_word(words[i], quoted, sizeof quoted);
        snprintf(command, sizeof command, "printf %%s %s", quoted);
        shell = popen(command, "r");
        assert_non_null(shell);
        n = fread(said, 1, sizeof said - 1, shell);
        said[n] = '\0';
        assert_int_equal(pclose(shell), 0);
        assert_string_equal(said, words[i]);
    }
    sr1__quote_word("runs/für-東", quoted, sizeof quoted);
    assert_string_equal(quoted, "runs/für-東"); /* no quotes where none are needed */
    sr1__quote_word("a 'long' word", quoted, 5);
    assert_int_equal(strlen(quoted), 4); /* cut, never written over */
}

static void what_only_a_shell_expands_is_told(void **state)
{
    static const struct {
        const char *path;
        char sign;
    } rows[] = {{"~/q.jsonl", '~'},     {"~", '~'},      {"cfg/~/q.jsonl", '~'},
                {"$HOME/q.jsonl", '$'}, {"a/$X", '$'},   {"a~b/c~", 0},
                {"q.jsonl", 0},         {"/cost$/x", 0}, {"", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(sr1__unexpanded_sign(rows[i].path), rows[i].sign);
        errno = ENOENT;
        assert_int_equal(sr1__fail_errno("open", rows[i].path), SR1_E_IO);
        assert_int_equal(strstr(sr1_last_error(), "write the path out") != NULL,
                         rows[i].sign != 0);
        errno = EACCES; /* is there, so nothing is to be expanded */
        assert_int_equal(sr1__fail_errno("open", rows[i].path), SR1_E_IO);
        assert_null(strstr(sr1_last_error(), "write the path out"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shell_reads_the_word_back),
        cmocka_unit_test(what_only_a_shell_expands_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
