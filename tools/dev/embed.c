/* embed FILE - print a file's bytes as the elements of an array in C. */
#include <stdio.h>

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    int c;

    if (f == NULL) {
        fprintf(stderr, "embed: cannot read %s\n", argc == 2 ? argv[1] : "FILE");
        return 1;
    }
    for (long i = 0; (c = getc(f)) != EOF; i++)
        printf("%d,%c", c, i % 16 == 15 ? '\n' : ' ');
    putchar('\n');
    return ferror(f) != 0 || fflush(stdout) != 0;
}
