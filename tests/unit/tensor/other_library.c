/* A shared library that is not the one looked for. */
int sr1_test_other_library(void);
int sr1_test_other_library(void)
{
    return 1;
}
