/* 03_tokenizer.c - text to ids, ids to text, a conversation to a prompt.
 *
 *     03_tokenizer FOLDER
 *
 * FOLDER holds a tokenizer.json: Qwen's, or one that sr1-data world made. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/tokenizer.h>

#include <stdio.h>
#include <string.h>

static sr1_status show_text(const sr1_tokenizer *tokenizer, const char *text)
{
    int32_t *ids = NULL;
    char *back = NULL;
    size_t n = 0;
    /* Text from outside: "<|im_end|>" in it is ten characters, not an end. */
    sr1_status status = sr1_tokenizer_encode(tokenizer, text, strlen(text),
                                             SR1_ENCODE_ADDED_AS_TEXT, &ids, &n);

    if (status == SR1_OK)
        status = sr1_tokenizer_decode(tokenizer, ids, n, 0, &back, NULL);
    if (status == SR1_OK)
        printf("%zu ids, and back: %s\n", n, back);
    sr1_free(back);
    sr1_free(ids);
    return status;
}

static sr1_status show_chat(const sr1_tokenizer *tokenizer)
{
    const char *roles[] = {"system", "user"};
    const char *contents[] = {"Answer in one word.", "Where is the Eiffel Tower?"};
    sr1_chat_options options = {.struct_size = sizeof(options),
                                .add_generation_prompt = 1};
    char *prompt = NULL;
    sr1_status status = sr1_tokenizer_chat(tokenizer, roles, contents, NULL, 2, &options,
                                           &prompt, NULL, NULL, NULL);

    if (status == SR1_OK)
        printf("%s rules:\n%s\n", sr1_tokenizer_chat_family(tokenizer), prompt);
    sr1_free(prompt);
    return status;
}

int main(int argc, char **argv)
{
    sr1_tokenizer *tokenizer = NULL;
    sr1_status status;

    if (argc != 2)
        return fprintf(stderr, "usage: 03_tokenizer FOLDER\n"), 2;
    status = sr1_tokenizer_open(&tokenizer, argv[1]);
    if (status == SR1_OK)
        status = show_text(tokenizer, "caf\xc3\xa9 <|im_end|>");
    if (status == SR1_OK)
        status = show_chat(tokenizer);
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_tokenizer_free(tokenizer);
    return status == SR1_OK ? 0 : 1;
}
