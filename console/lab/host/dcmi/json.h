/* A small JSON reader: text in, tree out. Bounds-checked, no recursion deeper than JSON_DEPTH_MAX. */
#ifndef SIM_JSON_H
#define SIM_JSON_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MAX 32

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind;
    const char *key;        /* name within an object, else NULL */
    bool boolean;
    double number;
    const char *string;     /* NUL-terminated, escapes resolved */
    struct json *first;     /* members of an array or object, in order */
    struct json *next;
};

struct json_document;

/* Parse `length` bytes. NULL on failure, with the reason and its byte offset in `error`. */
struct json_document *json_parse(const char *text, size_t length, char *error, size_t error_size);
const struct json *json_root(const struct json_document *document);
void json_free(struct json_document *document);

/* The member called `key`, or NULL when there is none or `object` is not an object. */
const struct json *json_member(const struct json *object, const char *key);

#endif
