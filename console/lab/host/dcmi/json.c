#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything of a document lives in one list of blocks, freed together. */
struct block {
    struct block *next;
    max_align_t data[];
};

struct json_document {
    struct block *blocks;
    struct json *root;
};

struct parser {
    struct json_document *document;
    const char *start, *at, *end;
    int depth;
    const char *error;      /* the first one; later ones are consequences */
};

static struct json *parse_value(struct parser *parser);

static void *keep(struct parser *parser, size_t size)
{
    struct block *block = calloc(1, sizeof(*block) + size);
    if (block == NULL) {
        parser->error = "out of memory";
        return NULL;
    }
    block->next = parser->document->blocks;
    parser->document->blocks = block;
    return block->data;
}

static struct json *fail(struct parser *parser, const char *reason)
{
    if (parser->error == NULL) {
        parser->error = reason;
    }
    return NULL;
}

static void skip_blanks(struct parser *parser)
{
    while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) != NULL && *parser->at != '\0') {
        parser->at++;
    }
}

static bool take(struct parser *parser, char expected)
{
    skip_blanks(parser);
    if (parser->at < parser->end && *parser->at == expected) {
        parser->at++;
        return true;
    }
    return false;
}

static struct json *make(struct parser *parser, enum json_kind kind)
{
    struct json *value = keep(parser, sizeof(*value));
    if (value != NULL) {
        value->kind = kind;
    }
    return value;
}

static struct json *parse_word(struct parser *parser, const char *word, enum json_kind kind, bool boolean)
{
    size_t length = strlen(word);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, word, length) != 0) {
        return fail(parser, "unknown word");
    }
    parser->at += length;
    struct json *value = make(parser, kind);
    if (value != NULL) {
        value->boolean = boolean;
    }
    return value;
}

static struct json *parse_number(struct parser *parser)
{
    char text[64];
    size_t length = 0;
    while (parser->at < parser->end && *parser->at != '\0' && strchr("+-.0123456789eE", *parser->at) != NULL) {
        if (length + 1 >= sizeof(text)) {
            return fail(parser, "number too long");
        }
        text[length++] = *parser->at++;
    }
    text[length] = '\0';
    char *rest = NULL;
    double number = strtod(text, &rest);
    if (length == 0 || *rest != '\0' || !isfinite(number)) {
        return fail(parser, "not a number");
    }
    struct json *value = make(parser, JSON_NUMBER);
    if (value != NULL) {
        value->number = number;
    }
    return value;
}

/* Four hexadecimal digits to a code point of the basic plane, written as UTF-8. Returns the bytes written, 0 on error. */
static size_t decode_unicode(struct parser *parser, char *out)
{
    if (parser->end - parser->at < 4) {
        return 0;
    }
    char digits[5] = {0};
    memcpy(digits, parser->at, 4);
    char *rest = NULL;
    unsigned long point = strtoul(digits, &rest, 16);
    if (*rest != '\0') {
        return 0;
    }
    parser->at += 4;
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xC0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3F));
        return 2;
    }
    out[0] = (char)(0xE0 | point >> 12);
    out[1] = (char)(0x80 | (point >> 6 & 0x3F));
    out[2] = (char)(0x80 | (point & 0x3F));
    return 3;
}

static const char *parse_text(struct parser *parser)
{
    if (!take(parser, '"')) {
        fail(parser, "expected a string");
        return NULL;
    }
    /* An escape never grows: the longest, \uXXXX, is six bytes in and at most three out. */
    const char *close = parser->at;
    while (close < parser->end && *close != '"') {
        close += *close == '\\' ? 2 : 1;
    }
    if (close >= parser->end) {
        fail(parser, "string does not end");
        return NULL;
    }
    char *text = keep(parser, (size_t)(close - parser->at) + 1);
    if (text == NULL) {
        return NULL;
    }
    size_t length = 0;
    while (parser->at < close) {
        char c = *parser->at++;
        if (c != '\\') {
            text[length++] = c;
            continue;
        }
        static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
        c = *parser->at++;
        const char *name = c == '\0' ? NULL : strchr(names, c);
        if (name != NULL) {
            text[length++] = values[name - names];
            continue;
        }
        size_t written = c == 'u' ? decode_unicode(parser, text + length) : 0;
        if (written == 0) {
            fail(parser, "bad escape in a string");
            return NULL;
        }
        length += written;
    }
    parser->at = close + 1;
    return text;
}

static struct json *parse_members(struct parser *parser, bool object)
{
    char close = object ? '}' : ']';
    struct json *whole = make(parser, object ? JSON_OBJECT : JSON_ARRAY);
    if (whole == NULL || take(parser, close)) {
        return whole;
    }
    struct json **tail = &whole->first;
    do {
        const char *key = NULL;
        if (object) {
            key = parse_text(parser);
            if (key == NULL || !take(parser, ':')) {
                return fail(parser, "expected a name and a colon");
            }
        }
        struct json *member = parse_value(parser);
        if (member == NULL) {
            return NULL;
        }
        member->key = key;
        *tail = member;
        tail = &member->next;
    } while (take(parser, ','));
    return take(parser, close) ? whole : fail(parser, object ? "expected , or }" : "expected , or ]");
}

static struct json *parse_value(struct parser *parser)
{
    skip_blanks(parser);
    if (parser->at >= parser->end) {
        return fail(parser, "text ends too early");
    }
    struct json *value = NULL;
    switch (*parser->at) {
        case '{':
        case '[':
            if (++parser->depth > JSON_DEPTH_MAX) {
                return fail(parser, "nested too deeply");
            }
            value = parse_members(parser, *parser->at++ == '{');
            parser->depth--;
            return value;
        case '"': {
            const char *text = parse_text(parser);
            value = text == NULL ? NULL : make(parser, JSON_STRING);
            if (value != NULL) {
                value->string = text;
            }
            return value;
        }
        case 't':
            return parse_word(parser, "true", JSON_BOOL, true);
        case 'f':
            return parse_word(parser, "false", JSON_BOOL, false);
        case 'n':
            return parse_word(parser, "null", JSON_NULL, false);
        default:
            return parse_number(parser);
    }
}

struct json_document *json_parse(const char *text, size_t length, char *error, size_t error_size)
{
    struct json_document *document = calloc(1, sizeof(*document));
    if (document == NULL) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    struct parser parser = {.document = document, .start = text, .at = text, .end = text + length};
    document->root = parse_value(&parser);
    skip_blanks(&parser);
    if (parser.error == NULL && parser.at != parser.end) {
        parser.error = "text goes on after its end";
    }
    if (parser.error != NULL) {
        snprintf(error, error_size, "%s at byte %td", parser.error, parser.at - parser.start);
        json_free(document);
        return NULL;
    }
    return document;
}

const struct json *json_root(const struct json_document *document)
{
    return document->root;
}

void json_free(struct json_document *document)
{
    if (document == NULL) {
        return;
    }
    struct block *block = document->blocks;
    while (block != NULL) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
    free(document);
}

const struct json *json_member(const struct json *object, const char *key)
{
    if (object == NULL || object->kind != JSON_OBJECT) {
        return NULL;
    }
    for (const struct json *member = object->first; member != NULL; member = member->next) {
        if (strcmp(member->key, key) == 0) {
            return member;
        }
    }
    return NULL;
}
